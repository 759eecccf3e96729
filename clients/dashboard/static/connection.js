// The page's socket: opened again whenever it closes, and every frame answered once it is drawn.

const AGAIN_MS = 700;
const operatorKey = "operator";

/** The operator's token comes with the address behind #, which is not sent anywhere, and is then taken out of it. */
function takeToken() {
  const given = new URLSearchParams(location.hash.slice(1)).get(operatorKey);
  if (given) {
    sessionStorage.setItem(operatorKey, given);
    history.replaceState(null, "", location.pathname);
  }
  return sessionStorage.getItem(operatorKey);
}

export class Connection {
  constructor(onFrame, onOpen) {
    this.token = takeToken();
    this.open = false;
    this.waiting = new Map();
    this.next = 1;
    this.onFrame = onFrame;
    this.onOpen = onOpen;
    this.connect();
  }

  connect() {
    const address = new URL("live", document.baseURI);
    address.protocol = address.protocol.replace("http", "ws");
    this.socket = new WebSocket(address);
    this.socket.onopen = () => {
      this.open = true;
      this.onOpen(true);
    };
    this.socket.onclose = () => {
      this.open = false;
      this.onOpen(false);
      for (const { reject } of this.waiting.values()) reject(new Error("the dashboard is away"));
      this.waiting.clear();
      setTimeout(() => this.connect(), AGAIN_MS);
    };
    this.socket.onmessage = ({ data }) => this.take(JSON.parse(data));
  }

  take(message) {
    if (!("done" in message)) {
      this.onFrame(message);
      return;
    }
    const promise = this.waiting.get(message.done);
    this.waiting.delete(message.done);
    if (message.failed) promise?.reject(new Error(message.text));
    else promise?.resolve(message.text);
  }

  say(message) {
    if (this.open) this.socket.send(JSON.stringify(message));
  }

  /** An operator's action: resolves with what the exchange said to it. */
  act(action, values = {}) {
    if (!this.open) return Promise.reject(new Error("the dashboard is away"));
    const id = this.next++;
    return new Promise((resolve, reject) => {
      this.waiting.set(id, { resolve, reject });
      this.say({ do: action, id, token: this.token ?? "", ...values });
    });
  }
}

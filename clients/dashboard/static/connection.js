// The page's WebSocket: reopened whenever it closes. Every frame is acknowledged once it is drawn.

const RECONNECT_MS = 700;
const operatorKey = "operator";

/** Reads the operator's token from behind the # of the address, which browsers do not send, and removes it from there. */
function takeToken() {
  const token = new URLSearchParams(location.hash.slice(1)).get(operatorKey);
  if (token) {
    sessionStorage.setItem(operatorKey, token);
    history.replaceState(null, "", location.pathname);
  }
  return sessionStorage.getItem(operatorKey);
}

export class Connection {
  constructor(onFrame, onOpen) {
    this.token = takeToken();
    this.open = false;
    this.pending = new Map();
    this.next = 1;
    this.onFrame = onFrame;
    this.onOpen = onOpen;
    this.connect();
    addEventListener("hashchange", () => this.takeNewToken());
  }

  /** The operator's address in a tab that shows the page already changes the fragment alone: the page begins again with the token. */
  takeNewToken() {
    const before = location.hash;
    this.token = takeToken();
    if (location.hash !== before) location.reload();
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
      for (const { reject } of this.pending.values()) reject(new Error("the dashboard is not reachable"));
      this.pending.clear();
      setTimeout(() => this.connect(), RECONNECT_MS);
    };
    this.socket.onmessage = ({ data }) => this.receive(JSON.parse(data));
  }

  receive(message) {
    if (!("done" in message)) {
      this.onFrame(message);
      return;
    }
    const promise = this.pending.get(message.done);
    this.pending.delete(message.done);
    if (message.failed) promise?.reject(new Error(message.text));
    else promise?.resolve(message.text);
  }

  send(message) {
    if (this.open) this.socket.send(JSON.stringify(message));
  }

  /** Requests an operator's action; resolves with the exchange's reply. */
  act(action, values = {}) {
    if (!this.open) return Promise.reject(new Error("the dashboard is not reachable"));
    const id = this.next++;
    return new Promise((resolve, reject) => {
      this.pending.set(id, { resolve, reject });
      this.send({ do: action, id, token: this.token ?? "", ...values });
    });
  }
}

// A client of a serl exchange in JavaScript: logs in, trades with itself, and receives the trade from the feed.
// npm install && node client.js tcp://127.0.0.1:5570 DEMO; the token, if the exchange requires one, is in SERL_TOKEN
import { Dealer, Subscriber } from "zeromq";
import { encode, decode } from "@msgpack/msgpack";

const [endpoint = "tcp://127.0.0.1:5570", name = "DEMO"] = process.argv.slice(2);
const token = process.env.SERL_TOKEN ?? "";
const port = Number(endpoint.slice(endpoint.lastIndexOf(":") + 1));
const at = (offset) => endpoint.slice(0, endpoint.lastIndexOf(":") + 1) + (port + offset);
const NEW = 1, HELLO = 64, BYE = 65, REPORTS = 80, WELCOME = 96, ERROR = 97, GOODBYE = 100;
const BUY = 0, SELL = 1, GTC = 1, ACCEPTED = 1, FILL = 3;

const orders = new Dealer({ linger: 0 });
const feed = new Subscriber();
orders.connect(endpoint);
feed.connect(at(1));
feed.subscribe(`trade/${name}/`, `\0${token}\0trade/${name}/`); // the second one counts where a login is required

const send = (...message) => orders.send(encode(message));
async function receive(...kinds) {
  for await (const [data] of orders) {
    const message = decode(data, { useBigInt64: false });
    if (message[0] === ERROR) throw new Error(`${message[1]}: ${message[2]}`);
    if (kinds.includes(message[0])) return message;
  }
}

await send(HELLO, 1, 1, "javascript", token, -1, { cancel_on_disconnect: true });
const welcome = await receive(WELCOME);
let commandId = Number(welcome[5]);
const symbol = welcome[6].find(([, symbolName]) => symbolName === name)[0];
console.log(`logged in, symbol ${name} is number ${symbol}`);

async function order(side, qtyLots, priceTicks) {
  await send(NEW, ++commandId, symbol, side, qtyLots, priceTicks, GTC, 0, 0);
  const events = [];
  while (!events.some(([kind, , id]) => kind === ACCEPTED && id === commandId)) {
    events.push(...(await receive(REPORTS))[2]);
  }
  return events;
}

await new Promise((resolve) => setTimeout(resolve, 200)); // until the subscription has reached the exchange
await order(BUY, 5, 4321);
const events = await order(SELL, 5, 4321);
const fills = events.filter(([kind]) => kind === FILL);
console.log(`filled ${fills.length / 2} trade of ${fills[0][7]} lots at ${fills[0][8]} ticks`);

let trades = [];
while (!trades.length) trades = decode((await feed.receive())[1])[5]; // a topic without trades for a second is repeated, without items
const [[, , priceTicks, qtyLots]] = trades;
console.log(`trade on the feed: ${qtyLots} lots at ${priceTicks} ticks`);
await send(BYE);
await receive(GOODBYE);
console.log("goodbye");
orders.close();
feed.close();

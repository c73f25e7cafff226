// Sends messages to a topic and receives them again, with the Node client.
//
// Usage: node client.js NAMESRV TOPIC COUNT. Prints "sent BODY" for each message stored and
// "received BODY" for each delivered; ends when COUNT different ones are there, or after a while
// with status 1. What the client itself has to say goes to stderr.
'use strict';

const { Producer, Consumer, Message } = require('ali-ons');

const POLL_MS = 1000;
const RECEIVE_LIMIT_MS = 60000;
// After the last expected message: time for one that should not come.
const SURPLUS_MS = 300;
const SEND_TRIES = 4;

const [, , server, topic, countText] = process.argv;
const count = Number(countText);

const log = (...words) => console.error(...words);

const options = {
  nameSrv: server,
  // Must be there, although nobody is asked over HTTP where the address is given.
  httpclient: { request: () => Promise.reject(new Error('no HTTP here')) },
  accessKeyId: 'none',
  accessKeySecret: 'none',
  clientIP: '127.0.0.1',
  // Spelled as the client spells it.
  pollNameServerInteval: POLL_MS,
  heartbeatBrokerInterval: POLL_MS,
  rebalanceInterval: POLL_MS,
  logger: { debug: () => {}, info: () => {}, warn: log, error: log },
};

async function send() {
  const producer = new Producer({ ...options, producerGroup: `${topic}-p` });
  producer.on('error', log);
  await producer.ready();
  for (let i = 0; i < count; i++) {
    const body = `${topic}-${i}`;
    await sendOne(producer, body);
    console.log(`sent ${body}`);
  }
  await producer.close();
}

// The first request may be late on a busy machine.
async function sendOne(producer, body) {
  for (let tries = 1; ; tries++) {
    try {
      const result = await producer.send(new Message(topic, 'tag', body));
      if (result.sendStatus !== 'SEND_OK') {
        throw new Error(`${body}: ${result.sendStatus}`);
      }
      return;
    } catch (failure) {
      if (tries === SEND_TRIES) {
        throw failure;
      }
      log(failure);
    }
  }
}

async function receive() {
  const consumer = new Consumer({
    ...options,
    consumerGroup: `${topic}-c`,
    consumeFromWhere: 'CONSUME_FROM_FIRST_OFFSET',
  });
  // It complains about its retry topic until a broker has made it.
  consumer.on('error', log);
  const different = new Set();
  await new Promise((resolve, reject) => {
    const limit = setTimeout(
      () => reject(new Error(`${different.size} of ${count} messages`)),
      RECEIVE_LIMIT_MS
    );
    consumer.subscribe(topic, '*', async message => {
      const body = message.body.toString();
      console.log(`received ${body}`);
      different.add(body);
      if (different.size === count) {
        clearTimeout(limit);
        setTimeout(resolve, SURPLUS_MS);
      }
    });
  });
}

async function main() {
  await send();
  await receive();
}

main().then(
  () => process.exit(0),
  failure => {
    log(failure);
    process.exit(1);
  }
);

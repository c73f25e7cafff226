"""Sends messages to a topic and receives them again, with the C++ client that Python wraps.

Usage: client.py NAMESRV TOPIC COUNT. Prints "sent BODY" for each message stored and
"received BODY" for each delivered; ends when COUNT different ones are there, or after a while
with status 1. What the client itself has to say goes to stderr and to a log below $HOME.
"""

import os
import sys
import threading
import time

from rocketmq.client import Message, Producer, PushConsumer, SendStatus

SEND_TIMEOUT_MS = 5000
# The client does not ask again for a route whose first request was late.
SEND_TRIES = 4
SEND_PAUSE_S = 1
RECEIVE_LIMIT_S = 60
# After the last expected message: time for one that should not come.
SURPLUS_S = 0.3


def main():
    server, topic, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
    send(server, topic, count)
    found = receive(server, topic, count)
    if found < count:
        print(f"{found} of {count} messages", file=sys.stderr)
        return 1
    return 0


def send(server, topic, count):
    producer = Producer(f"{topic}-p", timeout=SEND_TIMEOUT_MS)
    producer.set_namesrv_addr(server)
    producer.start()
    for i in range(count):
        body = f"{topic}-{i}"
        send_one(producer, topic, body)
        say(f"sent {body}")
    producer.shutdown()


def send_one(producer, topic, body):
    for tries in range(1, SEND_TRIES + 1):
        message = Message(topic)
        message.set_body(body)
        try:
            result = producer.send_sync(message)
        except Exception as failure:
            if tries == SEND_TRIES:
                raise
            print(failure, file=sys.stderr)
            time.sleep(SEND_PAUSE_S)
            continue
        if result.status != SendStatus.OK:
            raise RuntimeError(f"{body}: {result.status}")
        return


def receive(server, topic, count):
    different = set()
    complete = threading.Event()

    def collect(message):
        body = message.body.decode()
        say(f"received {body}")
        different.add(body)
        if len(different) == count:
            complete.set()

    # There is no choice of the first offset; on a young topic it is the first that there is.
    consumer = PushConsumer(f"{topic}-c")
    consumer.set_namesrv_addr(server)
    consumer.set_thread_count(2)
    consumer.subscribe(topic, collect)
    consumer.start()
    if complete.wait(RECEIVE_LIMIT_S):
        time.sleep(SURPLUS_S)
    return len(different)


def say(line):
    # One write: the client calls back from several threads.
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    status = main()
    # The library's threads do not survive an ordinary end.
    os._exit(status)

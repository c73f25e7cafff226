// Sends messages to a topic and receives them again, with the Go client.
//
// Usage: PROGRAM NAMESRV TOPIC COUNT. Prints "sent BODY" for each message stored and
// "received BODY" for each delivered; ends when COUNT different ones are there, or after a while
// with status 1. What the client itself has to say goes to stderr.
package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
	"github.com/apache/rocketmq-client-go/v2/rlog"
)

const (
	sendTimeout = 5 * time.Second
	sendRetries = 5
	// A client asks for routes and divides queues only every 20 to 30 s.
	receiveLimit = 60 * time.Second
	// After the last expected message: time for one that should not come.
	surplus = 300 * time.Millisecond
)

func main() {
	rlog.SetLogLevel("error")
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	if len(os.Args) != 4 {
		return fmt.Errorf("usage: %s NAMESRV TOPIC COUNT", os.Args[0])
	}
	count, err := strconv.Atoi(os.Args[3])
	if err != nil {
		return err
	}
	servers := primitive.NewPassthroughResolver([]string{os.Args[1]})
	if err := send(servers, os.Args[2], count); err != nil {
		return fmt.Errorf("send: %w", err)
	}
	if err := receive(servers, os.Args[2], count); err != nil {
		return fmt.Errorf("receive: %w", err)
	}
	return nil
}

func send(servers primitive.NsResolver, topic string, count int) error {
	p, err := rocketmq.NewProducer(
		producer.WithNsResolver(servers),
		producer.WithGroupName(topic+"-p"),
		producer.WithInstanceName(topic+"-p"),
		producer.WithSendMsgTimeout(sendTimeout),
		producer.WithRetry(sendRetries),
	)
	if err != nil {
		return err
	}
	if err := p.Start(); err != nil {
		return err
	}
	for i := 0; i < count; i++ {
		body := fmt.Sprintf("%s-%d", topic, i)
		result, err := p.SendSync(context.Background(), primitive.NewMessage(topic, []byte(body)))
		if err != nil {
			return err
		}
		if result.Status != primitive.SendOK {
			return fmt.Errorf("%s: status %d", body, result.Status)
		}
		fmt.Println("sent", body)
	}
	return p.Shutdown()
}

func receive(servers primitive.NsResolver, topic string, count int) error {
	c, err := rocketmq.NewPushConsumer(
		consumer.WithNsResolver(servers),
		consumer.WithGroupName(topic+"-c"),
		consumer.WithInstance(topic+"-c"),
		consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset),
	)
	if err != nil {
		return err
	}
	bodies := make(chan string, count)
	collect := func(_ context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
		for _, message := range messages {
			bodies <- string(message.Body)
		}
		return consumer.ConsumeSuccess, nil
	}
	if err := c.Subscribe(topic, consumer.MessageSelector{}, collect); err != nil {
		return err
	}
	if err := c.Start(); err != nil {
		return err
	}
	if err := printUntil(bodies, count); err != nil {
		return err
	}
	return c.Shutdown()
}

// Ends a little after count different bodies.
func printUntil(bodies <-chan string, count int) error {
	different := map[string]bool{}
	end := time.After(receiveLimit)
	for {
		select {
		case body := <-bodies:
			fmt.Println("received", body)
			different[body] = true
			if len(different) == count {
				end = time.After(surplus)
			}
		case <-end:
			if len(different) < count {
				return fmt.Errorf("%d of %d messages", len(different), count)
			}
			return nil
		}
	}
}

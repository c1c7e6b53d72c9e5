// franz-go behind pipes: a line "produce ADDRESS" or "consume ADDRESS MILLISECONDS" is answered by a line.
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

func main() {
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		words := strings.Fields(lines.Text())
		if words[0] == "produce" {
			fmt.Println(produce(words[1]))
		} else {
			quietMs, _ := strconv.Atoi(words[2])
			fmt.Println(consume(words[1], time.Duration(quietMs)*time.Millisecond))
		}
	}
}

func backoff(int) time.Duration { return 20 * time.Millisecond }

func produce(address string) string {
	client, err := kgo.NewClient(kgo.SeedBrokers(address), kgo.ClientID("franz-go"), kgo.AllowAutoTopicCreation(),
		kgo.RetryBackoffFn(backoff), kgo.MetadataMinAge(20*time.Millisecond), kgo.RecordDeliveryTimeout(60*time.Second))
	if err != nil {
		return err.Error()
	}
	defer client.Close()
	record := &kgo.Record{Topic: "orders", Value: []byte("order 1")}
	err = client.ProduceSync(context.Background(), record).FirstErr()
	var refused *kerr.Error
	if errors.As(err, &refused) {
		return refused.Message
	}
	if err != nil {
		return err.Error()
	}
	return "ok"
}

func consume(address string, quietFor time.Duration) string {
	client, err := kgo.NewClient(kgo.SeedBrokers(address), kgo.ClientID("franz-go"), kgo.ConsumerGroup("billing"),
		kgo.ConsumeTopics("orders"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.DisableAutoCommit(),
		kgo.HeartbeatInterval(100*time.Millisecond), kgo.RetryBackoffFn(backoff), kgo.MetadataMinAge(20*time.Millisecond))
	if err != nil {
		return err.Error()
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	seen := 0
	for seen == 0 && ctx.Err() == nil {
		seen += client.PollFetches(ctx).NumRecords()
	}
	quiet, end := context.WithTimeout(ctx, quietFor)
	defer end()
	for quiet.Err() == nil {
		client.PollFetches(quiet)
	}
	if err := client.CommitUncommittedOffsets(ctx); err != nil {
		return err.Error()
	}
	return "ok"
}

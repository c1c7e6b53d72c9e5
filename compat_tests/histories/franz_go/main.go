// franz-go for piped_client.py, which describes the lines of standard input and output. It assigns keys and joins no group:
// kgo has sessions of its own for transactions with offsets of a group.
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

	"github.com/twmb/franz-go/pkg/kgo"
)

const operationTime = 15 * time.Second

type client struct {
	bootstrap []string
	producer  *kgo.Client
	consumer  *kgo.Client
}

func (c *client) options(more ...kgo.Opt) []kgo.Opt {
	return append([]kgo.Opt{
		kgo.SeedBrokers(c.bootstrap...),
		kgo.MetadataMaxAge(5 * time.Second),
		kgo.MetadataMinAge(100 * time.Millisecond),
		kgo.RequestTimeoutOverhead(5 * time.Second),
		kgo.RetryTimeout(operationTime),
	}, more...)
}

func open(words []string) (*client, error) {
	c := &client{bootstrap: strings.Split(words[1], ",")}
	more := []kgo.Opt{
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.RecordDeliveryTimeout(operationTime),
		kgo.ProducerLinger(0),
	}
	if words[3] != "" {
		more = append(more, kgo.TransactionalID(words[3]), kgo.TransactionTimeout(10*time.Second))
	}
	producer, err := kgo.NewClient(c.options(more...)...)
	c.producer = producer
	return c, err
}

// read replaces the consumer.
func (c *client) read(more ...kgo.Opt) error {
	if c.consumer != nil {
		c.consumer.Close()
	}
	more = append(more,
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.FetchMaxWait(50*time.Millisecond),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
	)
	consumer, err := kgo.NewClient(c.options(more...)...)
	c.consumer = consumer
	return err
}

func offsets(words []string) map[string]map[int32]kgo.Offset {
	found := map[string]map[int32]kgo.Offset{}
	for at := 1; at < len(words); at += 3 {
		if found[words[at]] == nil {
			found[words[at]] = map[int32]kgo.Offset{}
		}
		found[words[at]][number(words[at+1])] = kgo.NewOffset().At(int64(number(words[at+2])))
	}
	return found
}

func number(text string) int32 {
	found, err := strconv.Atoi(text)
	if err != nil {
		panic(err)
	}
	return int32(found)
}

func (c *client) send(ctx context.Context, words []string) (string, error) {
	records := []*kgo.Record{}
	for at := 1; at < len(words); at += 3 {
		records = append(records, &kgo.Record{Topic: words[at], Partition: number(words[at+1]), Value: []byte(words[at+2])})
	}
	if err := c.producer.ProduceSync(ctx, records...).FirstErr(); err != nil {
		return "", err
	}
	answer := ""
	for _, record := range records {
		answer += fmt.Sprintf("\t%d", record.Offset)
	}
	return answer, nil
}

func (c *client) poll(words []string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(number(words[1]))*time.Millisecond)
	defer cancel()
	fetches := c.consumer.PollRecords(ctx, 200)
	if err := fetches.Err(); err != nil && !errors.Is(err, context.DeadlineExceeded) && fetches.IsClientClosed() {
		return "", err
	}
	answer := ""
	fetches.EachRecord(func(r *kgo.Record) {
		answer += fmt.Sprintf("\t%s\t%d\t%d\t%s", r.Topic, r.Partition, r.Offset, r.Value)
	})
	return answer, nil
}

func (c *client) perform(words []string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), operationTime)
	defer cancel()
	switch words[0] {
	case "send":
		return c.send(ctx, words)
	case "begin":
		return "", c.producer.BeginTransaction()
	case "commit":
		return "", c.producer.EndTransaction(ctx, kgo.TryCommit)
	case "abort":
		return "", c.producer.EndTransaction(ctx, kgo.TryAbort)
	case "assign":
		return "", c.read(kgo.ConsumePartitions(offsets(words)))
	case "seek":
		wanted := map[string]map[int32]kgo.EpochOffset{}
		for topic, parts := range offsets(words) {
			wanted[topic] = map[int32]kgo.EpochOffset{}
			for index, offset := range parts {
				wanted[topic][index] = offset.EpochOffset()
			}
		}
		c.consumer.SetOffsets(wanted)
		return "", nil
	case "poll":
		return c.poll(words)
	}
	return "", fmt.Errorf("no command %s", words[0])
}

func main() {
	lines := bufio.NewReader(os.Stdin)
	var c *client
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			return
		}
		words := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		answer := ""
		if words[0] == "open" {
			c, err = open(words)
		} else {
			answer, err = c.perform(words)
		}
		if err != nil {
			fmt.Println("unknown\t" + strings.NewReplacer("\t", " ", "\n", " ").Replace(err.Error()))
		} else {
			fmt.Println("ok\t" + answer)
		}
	}
}

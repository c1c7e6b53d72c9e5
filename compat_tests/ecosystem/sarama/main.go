// Checks of Sarama, one at a time: program BOOTSTRAP CHECK TOPIC GROUP [COUNT]. What was found is printed, a line a record.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"strconv"
	"time"

	"github.com/IBM/sarama"
)

var checks = map[string]func(brokers []string, topic, group string) error{
	"admin":        admin,
	"produce":      produce,
	"consume":      consume,
	"transactions": transactions,
}

func main() {
	check, found := checks[os.Args[2]]
	if !found {
		log.Fatalf("no check %q", os.Args[2])
	}
	if err := check([]string{os.Args[1]}, os.Args[3], os.Args[4]); err != nil {
		log.Fatal(err)
	}
}

func config() *sarama.Config {
	made := sarama.NewConfig()
	made.Version = sarama.MaxVersion
	made.Producer.Return.Successes = true
	made.Producer.RequiredAcks = sarama.WaitForAll
	made.Producer.Idempotent = true
	made.Net.MaxOpenRequests = 1
	made.Consumer.Offsets.Initial = sarama.OffsetOldest
	made.Consumer.IsolationLevel = sarama.ReadCommitted
	return made
}

func admin(brokers []string, topic, group string) error {
	client, err := sarama.NewClusterAdmin(brokers, config())
	if err != nil {
		return err
	}
	defer client.Close()
	retention := "3600000"
	detail := &sarama.TopicDetail{NumPartitions: 3, ReplicationFactor: 1, ConfigEntries: map[string]*string{"retention.ms": &retention}}
	if err := client.CreateTopic(topic, detail, false); err != nil {
		return err
	}
	if err := client.CreatePartitions(topic, 5, nil, false); err != nil {
		return err
	}
	entries, err := client.DescribeConfig(sarama.ConfigResource{Type: sarama.TopicResource, Name: topic, ConfigNames: []string{"retention.ms"}})
	if err != nil {
		return err
	}
	nodes, controller, err := client.DescribeCluster()
	if err != nil {
		return err
	}
	fmt.Println(entries[0].Value, len(nodes), controller >= 0)
	return nil
}

func produce(brokers []string, topic, group string) error {
	settings := config()
	settings.Producer.Compression = sarama.CompressionZSTD
	producer, err := sarama.NewSyncProducer(brokers, settings)
	if err != nil {
		return err
	}
	defer producer.Close()
	for batch := 0; batch < 10; batch++ {
		var messages []*sarama.ProducerMessage
		for one := 0; one < 100; one++ {
			number := strconv.Itoa(batch*100 + one)
			messages = append(messages, &sarama.ProducerMessage{
				Topic: topic, Key: sarama.StringEncoder("key-" + number), Value: sarama.StringEncoder("value-" + number),
				Headers: []sarama.RecordHeader{{Key: []byte("n"), Value: []byte(number)}},
			})
		}
		if err := producer.SendMessages(messages); err != nil {
			return err
		}
	}
	return nil
}

// member prints what it is given, marks it, and ends after `left` records.
type member struct {
	found chan string
}

func (member) Setup(sarama.ConsumerGroupSession) error   { return nil }
func (member) Cleanup(sarama.ConsumerGroupSession) error { return nil }

func (m member) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for {
		select {
		case message, open := <-claim.Messages():
			if !open {
				return nil
			}
			session.MarkMessage(message, "")
			m.found <- string(message.Value)
		case <-session.Context().Done():
			return nil
		}
	}
}

func consume(brokers []string, topic, group string) error {
	count, err := strconv.Atoi(os.Args[5])
	if err != nil {
		return err
	}
	consumer, err := sarama.NewConsumerGroup(brokers, group, config())
	if err != nil {
		return err
	}
	context, cancel := context.WithTimeout(context.Background(), 90*time.Second)
	defer cancel()
	found, ended := make(chan string, count+1), make(chan error, 1)
	go func() {
		for context.Err() == nil {
			if err := consumer.Consume(context, []string{topic}, member{found}); err != nil {
				ended <- err
				return
			}
		}
	}()
	for ; count > 0; count-- {
		select {
		case value := <-found:
			fmt.Println(value)
		case err := <-ended:
			return err
		case <-context.Done():
			return fmt.Errorf("%d records did not come", count)
		}
	}
	cancel()
	return consumer.Close()
}

func transactions(brokers []string, topic, group string) error {
	settings := config()
	settings.Producer.Transaction.ID = group
	producer, err := sarama.NewAsyncProducer(brokers, settings)
	if err != nil {
		return err
	}
	defer producer.Close()
	for _, value := range []string{"aborted", "committed"} {
		if err := producer.BeginTxn(); err != nil {
			return err
		}
		producer.Input() <- &sarama.ProducerMessage{Topic: topic, Value: sarama.StringEncoder(value)}
		<-producer.Successes()
		if value == "aborted" {
			err = producer.AbortTxn()
		} else {
			offsets := map[string][]*sarama.PartitionOffsetMetadata{topic: {{Partition: 0, Offset: 7}}}
			if err := producer.AddOffsetsToTxn(offsets, group); err != nil {
				return err
			}
			err = producer.CommitTxn()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

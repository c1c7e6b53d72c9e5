// franz-go against a running broker: `franz HOST:PORT CHECK TOPIC GROUP` runs one check and ends with 0 when it holds.
// `franz checks` prints the names of the checks.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"sort"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

type arena struct {
	ctx           context.Context
	bootstrap     string
	topic, group  string
	admin         *kadm.Client
	closeWhenOver []func()
}

var checks = map[string]func(*arena) error{
	"batches-of-none":             func(a *arena) error { return a.batches(kgo.NoCompression()) },
	"batches-of-gzip":             func(a *arena) error { return a.batches(kgo.GzipCompression()) },
	"batches-of-snappy":           func(a *arena) error { return a.batches(kgo.SnappyCompression()) },
	"batches-of-lz4":              func(a *arena) error { return a.batches(kgo.Lz4Compression()) },
	"batches-of-zstd":             func(a *arena) error { return a.batches(kgo.ZstdCompression()) },
	"acks-of-the-leader":          func(a *arena) error { return a.acks(kgo.LeaderAck()) },
	"no-acks":                     func(a *arena) error { return a.acks(kgo.NoAck()) },
	"group-by-range":              func(a *arena) error { return a.shared(kgo.RangeBalancer()) },
	"group-by-round-robin":        func(a *arena) error { return a.shared(kgo.RoundRobinBalancer()) },
	"group-by-cooperative-sticky": func(a *arena) error { return a.shared(kgo.CooperativeStickyBalancer()) },
	"group-by-the-broker-range":   func(a *arena) error { return a.shared(kgo.RangeBalancer(), kgo.ServerSideBalancer()) },
	"group-by-the-broker-uniform": func(a *arena) error { return a.shared(kgo.StickyBalancer(), kgo.ServerSideBalancer()) },
	"group-goes-on":               (*arena).groupGoesOn,
	"static-member":               (*arena).staticMember,
	"transactions":                (*arena).transactions,
	"transactions-of-a-group":     (*arena).transactSession,
	"share-group-outcomes":        (*arena).shareOutcomes,
	"share-group-by-batches":      (*arena).shareByBatches,
	"share-group-by-records":      (*arena).shareByRecords,
	"share-group-of-two":          (*arena).shareAmongMembers,
	"admin-of-topics":             (*arena).adminOfTopics,
	"admin-of-configs":            (*arena).adminOfConfigs,
	"admin-of-offsets":            (*arena).adminOfOffsets,
	"admin-of-the-cluster":        (*arena).adminOfTheCluster,
}

func main() {
	if len(os.Args) == 2 && os.Args[1] == "checks" {
		names := make([]string, 0, len(checks))
		for name := range checks {
			names = append(names, name)
		}
		sort.Strings(names)
		for _, name := range names {
			fmt.Println(name)
		}
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 45*time.Second)
	defer cancel()
	a := &arena{ctx: ctx, bootstrap: os.Args[1], topic: os.Args[3], group: os.Args[4]}
	a.admin = kadm.NewClient(a.client())
	err := checks[os.Args[2]](a)
	for _, end := range a.closeWhenOver {
		end()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func (a *arena) client(more ...kgo.Opt) *kgo.Client {
	made, err := kgo.NewClient(append(append([]kgo.Opt{kgo.SeedBrokers(a.bootstrap)}, login()...), more...)...)
	if err != nil {
		panic(err)
	}
	a.closeWhenOver = append(a.closeWhenOver, made.Close)
	return made
}

// login returns the options for a secured broker: SCRAM-SHA-512 within TLS, if the environment has a user.
func login() []kgo.Opt {
	user := os.Getenv("FRANZ_USER")
	if user == "" {
		return nil
	}
	pem, err := os.ReadFile(os.Getenv("FRANZ_CA_FILE"))
	if err != nil {
		panic(err)
	}
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM(pem)
	mechanism := scram.Auth{User: user, Pass: os.Getenv("FRANZ_PASSWORD")}.AsSha512Mechanism()
	return []kgo.Opt{kgo.DialTLSConfig(&tls.Config{RootCAs: trusted}), kgo.SASL(mechanism)}
}

func (a *arena) makeTopic(partitions int32) error {
	_, err := a.admin.CreateTopic(a.ctx, partitions, 1, nil, a.topic)
	return err
}

func (a *arena) produce(count int, more ...kgo.Opt) error {
	producer := a.client(append(more, kgo.DefaultProduceTopic(a.topic))...)
	records := make([]*kgo.Record, count)
	for n := range records {
		headers := []kgo.RecordHeader{{Key: "h", Value: []byte("1")}}
		records[n] = &kgo.Record{Key: []byte("key"), Value: []byte(strconv.Itoa(n)), Headers: headers}
	}
	return producer.ProduceSync(a.ctx, records...).FirstErr()
}

// take polls until there are `count` records.
func (a *arena) take(consumer *kgo.Client, count int) ([]*kgo.Record, error) {
	var taken []*kgo.Record
	for len(taken) < count {
		fetches := consumer.PollFetches(a.ctx)
		if err := fetches.Err(); err != nil {
			return nil, err
		}
		taken = append(taken, fetches.Records()...)
	}
	return taken, nil
}

func (a *arena) batches(codec kgo.CompressionCodec) error {
	if err := errors.Join(a.makeTopic(1), a.produce(300, kgo.ProducerBatchCompression(codec))); err != nil {
		return err
	}
	return a.expectInOrder(300)
}

func (a *arena) acks(acks kgo.Acks) error {
	if err := errors.Join(a.makeTopic(1), a.produce(20, kgo.RequiredAcks(acks), kgo.DisableIdempotentWrite())); err != nil {
		return err
	}
	return a.expectInOrder(20)
}

func (a *arena) expectInOrder(count int) error {
	taken, err := a.take(a.client(kgo.ConsumeTopics(a.topic)), count)
	if err != nil {
		return err
	}
	for n, record := range taken {
		if string(record.Value) != strconv.Itoa(n) || string(record.Key) != "key" || len(record.Headers) != 1 {
			return fmt.Errorf("record %d is %v", n, record)
		}
	}
	return nil
}

func (a *arena) member(more ...kgo.Opt) *kgo.Client {
	options := []kgo.Opt{kgo.ConsumerGroup(a.group), kgo.ConsumeTopics(a.topic), kgo.HeartbeatInterval(200 * time.Millisecond)}
	return a.client(append(options, more...)...)
}

// await polls the condition until it holds or the deadline passes.
func (a *arena) await(what string, holds func() bool) error {
	for !holds() {
		select {
		case <-a.ctx.Done():
			return fmt.Errorf("it did not happen that %s", what)
		case <-time.After(20 * time.Millisecond):
		}
	}
	return nil
}

func (a *arena) shared(balancer kgo.GroupBalancer, more ...kgo.Opt) error {
	if err := a.makeTopic(4); err != nil {
		return err
	}
	options := append(more, kgo.Balancers(balancer))
	first, second := a.member(options...), a.member(options...)
	shares := func(wanted ...int) func() bool {
		return func() bool {
			a.poll(first)
			a.poll(second)
			return fmt.Sprint(a.assignedSizes()) == fmt.Sprint(wanted)
		}
	}
	if err := a.await("two members share four partitions", shares(2, 2)); err != nil {
		return err
	}
	second.Close()
	return a.await("the one that stays has them all", shares(4))
}

func (a *arena) poll(client *kgo.Client) {
	quick, cancel := context.WithTimeout(a.ctx, 10*time.Millisecond)
	defer cancel()
	client.PollFetches(quick)
}

// assignedSizes returns the number of partitions of each member, as the broker describes the group.
func (a *arena) assignedSizes() []int {
	var sizes []int
	// Groups of the new protocol (KIP-848) have a describe request of their own.
	consumers, err := a.admin.DescribeConsumerGroups(a.ctx, a.group)
	if err == nil && consumers[a.group].State == "Stable" {
		for _, member := range consumers[a.group].Members {
			sizes = append(sizes, len(member.Assignment[a.topic]))
		}
		return sizes
	}
	described, err := a.admin.DescribeGroups(a.ctx, a.group)
	if err != nil || described[a.group].State != "Stable" {
		return nil
	}
	for _, member := range described[a.group].Members {
		assigned, ok := member.Assigned.AsConsumer()
		if !ok {
			return nil
		}
		size := 0
		for _, topic := range assigned.Topics {
			size += len(topic.Partitions)
		}
		sizes = append(sizes, size)
	}
	return sizes
}

func (a *arena) groupGoesOn() error {
	if err := errors.Join(a.makeTopic(1), a.produce(10)); err != nil {
		return err
	}
	first := a.member(kgo.DisableAutoCommit())
	taken, err := a.take(first, 10)
	if err != nil {
		return err
	}
	if err := first.CommitRecords(a.ctx, taken[3]); err != nil {
		return err
	}
	first.Close()
	again, err := a.take(a.member(), 1)
	if err != nil {
		return err
	}
	if again[0].Offset != 4 {
		return fmt.Errorf("went on at %d, not at 4", again[0].Offset)
	}
	return nil
}

func (a *arena) staticMember() error {
	if err := a.makeTopic(2); err != nil {
		return err
	}
	has := func(client *kgo.Client) func() bool {
		return func() bool {
			a.poll(client)
			return fmt.Sprint(a.assignedSizes()) == "[2]"
		}
	}
	first := a.member(kgo.InstanceID("i"))
	if err := a.await("the static member has both partitions", has(first)); err != nil {
		return err
	}
	first.Close()
	if err := a.await("its place is kept", func() bool { return fmt.Sprint(a.assignedSizes()) == "[2]" }); err != nil {
		return err
	}
	left, err := a.admin.LeaveGroup(a.ctx, kadm.LeaveGroup(a.group).InstanceIDs("i"))
	if err != nil {
		return err
	}
	return left.Error()
}

func (a *arena) transactions() error {
	if err := a.makeTopic(1); err != nil {
		return err
	}
	producer := a.client(kgo.DefaultProduceTopic(a.topic), kgo.TransactionalID(a.topic))
	for _, end := range []kgo.TransactionEndTry{kgo.TryCommit, kgo.TryAbort, kgo.TryCommit} {
		if err := producer.BeginTransaction(); err != nil {
			return err
		}
		value := []byte(fmt.Sprint(bool(end)))
		if err := producer.ProduceSync(a.ctx, &kgo.Record{Value: value}, &kgo.Record{Value: value}).FirstErr(); err != nil {
			return err
		}
		if err := producer.EndTransaction(a.ctx, end); err != nil {
			return err
		}
	}
	taken, err := a.take(a.client(kgo.ConsumeTopics(a.topic), kgo.FetchIsolationLevel(kgo.ReadCommitted())), 4)
	for _, record := range taken {
		if string(record.Value) != "true" {
			return fmt.Errorf("an aborted record was read: %v", record)
		}
	}
	return err
}

func (a *arena) adminOfTopics() error {
	if err := a.makeTopic(1); err != nil {
		return err
	}
	if _, err := a.admin.CreateTopic(a.ctx, 1, 1, nil, a.topic); !errors.Is(err, kerr.TopicAlreadyExists) {
		return fmt.Errorf("a second creation: %v", err)
	}
	grown, err := a.admin.UpdatePartitions(a.ctx, 3, a.topic)
	if err := errors.Join(err, grown.Error()); err != nil {
		return err
	}
	err = a.await("it has three partitions", func() bool {
		listed, err := a.admin.ListTopics(a.ctx, a.topic)
		return err == nil && len(listed[a.topic].Partitions) == 3
	})
	if err != nil {
		return err
	}
	_, err = a.admin.DeleteTopic(a.ctx, a.topic)
	return err
}

func (a *arena) adminOfConfigs() error {
	if err := a.makeTopic(1); err != nil {
		return err
	}
	value := "12345"
	changes := []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "retention.ms", Value: &value}}
	if _, err := a.admin.AlterTopicConfigs(a.ctx, changes, a.topic); err != nil {
		return err
	}
	return a.await("the change is described", func() bool {
		described, err := a.admin.DescribeTopicConfigs(a.ctx, a.topic)
		if err != nil {
			return false
		}
		for _, config := range described[0].Configs {
			if config.Key == "retention.ms" {
				return config.MaybeValue() == value
			}
		}
		return false
	})
}

func (a *arena) adminOfOffsets() error {
	if err := errors.Join(a.makeTopic(1), a.produce(10)); err != nil {
		return err
	}
	offsets := make(kadm.Offsets)
	offsets.AddOffset(a.topic, 0, 4, -1)
	if err := a.admin.CommitAllOffsets(a.ctx, a.group, offsets); err != nil {
		return err
	}
	lags, err := a.admin.Lag(a.ctx, a.group)
	if err := errors.Join(err, lags.Error()); err != nil {
		return err
	}
	if lag := lags[a.group].Lag[a.topic][0].Lag; lag != 6 {
		return fmt.Errorf("a lag of %d, not of 6", lag)
	}
	until := make(kadm.Offsets)
	until.AddOffset(a.topic, 0, 3, -1)
	deleted, err := a.admin.DeleteRecords(a.ctx, until)
	if err := errors.Join(err, deleted.Error()); err != nil {
		return err
	}
	starts, err := a.admin.ListStartOffsets(a.ctx, a.topic)
	if err != nil || starts[a.topic][0].Offset != 3 {
		return fmt.Errorf("starts at %v, %v", starts[a.topic][0].Offset, err)
	}
	gone, err := a.admin.DeleteGroups(a.ctx, a.group)
	return errors.Join(err, gone.Error())
}

func (a *arena) adminOfTheCluster() error {
	brokers, err := a.admin.ListBrokers(a.ctx)
	if err != nil || len(brokers) != 1 {
		return fmt.Errorf("brokers %v, %v", brokers, err)
	}
	if _, err := a.admin.ApiVersions(a.ctx); err != nil {
		return err
	}
	directories, err := a.admin.DescribeAllLogDirs(a.ctx, nil)
	if err != nil || len(directories) != 1 {
		return fmt.Errorf("log directories %v, %v", directories, err)
	}
	_, err = a.admin.ListGroups(a.ctx)
	return err
}

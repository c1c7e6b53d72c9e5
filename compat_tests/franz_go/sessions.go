package main

import (
	"fmt"
	"strconv"

	"github.com/twmb/franz-go/pkg/kgo"
)

// transactSession reads, writes and commits its offsets in one transaction; it aborts the first, and reads again.
func (a *arena) transactSession() error {
	const count = 20
	target := a.topic + "-out"
	if err := a.makeTopic(1); err != nil {
		return err
	}
	if _, err := a.admin.CreateTopic(a.ctx, 1, 1, nil, target); err != nil {
		return err
	}
	if err := a.produce(count); err != nil {
		return err
	}
	session, err := kgo.NewGroupTransactSession(
		kgo.SeedBrokers(a.bootstrap), kgo.TransactionalID(a.topic), kgo.ConsumerGroup(a.group), kgo.ConsumeTopics(a.topic),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.RequireStableFetchOffsets(),
	)
	if err != nil {
		return err
	}
	a.closeWhenOver = append(a.closeWhenOver, session.Close)
	commits := kgo.TryAbort
	for copied := 0; copied < count; commits = kgo.TryCommit {
		fetches := session.PollFetches(a.ctx)
		if err := fetches.Err(); err != nil {
			return err
		}
		if fetches.NumRecords() == 0 {
			continue
		}
		if err := session.Begin(); err != nil {
			return err
		}
		fetches.EachRecord(func(record *kgo.Record) {
			session.Produce(a.ctx, &kgo.Record{Topic: target, Value: record.Value}, nil)
		})
		committed, err := session.End(a.ctx, commits)
		if err != nil {
			return err
		}
		if committed {
			copied += fetches.NumRecords()
		}
	}
	taken, err := a.take(a.client(kgo.ConsumeTopics(target), kgo.FetchIsolationLevel(kgo.ReadCommitted())), count)
	if err != nil {
		return err
	}
	for n, record := range taken {
		if string(record.Value) != strconv.Itoa(n) {
			return fmt.Errorf("record %d is %v", n, record)
		}
	}
	offsets, err := a.admin.FetchOffsets(a.ctx, a.group)
	if err != nil {
		return err
	}
	if committed, _ := offsets.Lookup(a.topic, 0); committed.At != count {
		return fmt.Errorf("the group is at %d", committed.At)
	}
	return nil
}

package main

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// shareFromTheStart makes the group begin at the first record of a topic.
func (a *arena) shareFromTheStart() error {
	earliest := "earliest"
	change := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
	change.Name, change.Value = "share.auto.offset.reset", &earliest
	resource := kmsg.NewIncrementalAlterConfigsRequestResource()
	resource.ResourceType, resource.ResourceName = kmsg.ConfigResourceTypeGroupConfig, a.group
	resource.Configs = append(resource.Configs, change)
	request := kmsg.NewIncrementalAlterConfigsRequest()
	request.Resources = append(request.Resources, resource)
	answer, err := request.RequestWith(a.ctx, a.client())
	if err == nil && answer.Resources[0].ErrorCode != 0 {
		err = fmt.Errorf("the group is not configured: %v", answer.Resources[0])
	}
	return err
}

// sharer returns a member of the share group; `failures` are acknowledgements that the broker rejected.
func (a *arena) sharer(failures *error, more ...kgo.Opt) *kgo.Client {
	told := func(_ *kgo.Client, results kgo.ShareAckResults) {
		*failures = errors.Join(*failures, results.Error())
	}
	options := []kgo.Opt{kgo.ShareGroup(a.group), kgo.ConsumeTopics(a.topic), kgo.ShareAckCallback(told)}
	return a.client(append(options, more...)...)
}

// shareOutcomes acknowledges each value by a plan, and expects as many deliveries of it as the plan implies.
func (a *arena) shareOutcomes() error {
	const count = 30
	if err := errors.Join(a.makeTopic(1), a.shareFromTheStart(), a.produce(count)); err != nil {
		return err
	}
	var refused error
	member := a.sharer(&refused)
	deliveries := make(map[int]int32, count)
	for ended := 0; ended < count; {
		fetches := member.PollFetches(a.ctx)
		if err := fetches.Err(); err != nil {
			return err
		}
		for _, record := range fetches.Records() {
			value, err := strconv.Atoi(string(record.Value))
			if err != nil {
				return err
			}
			if deliveries[value]++; record.DeliveryCount() != deliveries[value] {
				return fmt.Errorf("%d is delivered for the %dth time, says %d", value, deliveries[value], record.DeliveryCount())
			}
			switch {
			case value%3 == 0 && deliveries[value] < 3:
				record.Ack(kgo.AckRelease)
				continue
			case value%3 == 1:
				record.Ack(kgo.AckReject)
			default:
				record.Ack(kgo.AckAccept)
			}
			ended++
		}
		if err := errors.Join(member.FlushAcks(a.ctx), refused); err != nil {
			return err
		}
	}
	for value, times := range deliveries {
		if wanted := map[bool]int32{true: 3, false: 1}[value%3 == 0]; times != wanted {
			return fmt.Errorf("%d was delivered %d times", value, times)
		}
	}
	return a.shareIsDone()
}

// shareIsDone waits until the broker reports no lag of the group (KIP-1226).
func (a *arena) shareIsDone() error {
	request := kmsg.NewDescribeShareGroupOffsetsRequest()
	group := kmsg.NewDescribeShareGroupOffsetsRequestGroup()
	group.GroupID = a.group
	request.Groups = append(request.Groups, group)
	asker := a.client()
	var last any
	err := a.await("the group is done with all", func() bool {
		answer, err := request.RequestWith(a.ctx, asker)
		if err != nil || len(answer.Groups) != 1 || len(answer.Groups[0].Topics) != 1 {
			return false
		}
		lag := answer.Groups[0].Topics[0].Partitions[0].Lag
		last = lag
		return lag == 0
	})
	if err != nil {
		return fmt.Errorf("%w: %v", err, last)
	}
	return nil
}

// shareByBatches: the broker delivers a batch of many records whole, though the request is for fewer.
func (a *arena) shareByBatches() error {
	return a.shareAtMost(5, func(size int) bool { return size == 20 }, kgo.ShareMaxRecords(5))
}

// shareByRecords: the broker splits the same batch, since the limit of the request is strict (KIP-1206).
func (a *arena) shareByRecords() error {
	return a.shareAtMost(5, func(size int) bool { return size <= 5 }, kgo.ShareMaxRecords(5), kgo.ShareMaxRecordsStrict())
}

func (a *arena) shareAtMost(limit int, isRight func(size int) bool, more ...kgo.Opt) error {
	const count = 20
	if err := errors.Join(a.makeTopic(1), a.shareFromTheStart(), a.produce(count, kgo.ProducerLinger(100*time.Millisecond))); err != nil {
		return err
	}
	var refused error
	member := a.sharer(&refused, more...)
	for taken := 0; taken < count; {
		fetches := member.PollFetches(a.ctx)
		if err := errors.Join(fetches.Err(), refused); err != nil {
			return err
		}
		size := fetches.NumRecords()
		if size > 0 && !isRight(size) {
			return fmt.Errorf("%d records came where %d were asked for", size, limit)
		}
		taken += size
		member.MarkAcks(kgo.AckAccept)
	}
	return errors.Join(member.FlushAcks(a.ctx), refused, a.shareIsDone())
}

// shareAmongMembers: after one of two members leaves, the other gets all records, including those that the first had.
func (a *arena) shareAmongMembers() error {
	const count = 200
	if err := errors.Join(a.makeTopic(2), a.shareFromTheStart(), a.produce(count)); err != nil {
		return err
	}
	var refused error
	first := a.sharer(&refused)
	kept, err := a.take(first, 1)
	if err != nil {
		return err
	}
	for _, record := range kept {
		record.Ack(kgo.AckRelease)
	}
	first.Close()
	seen := make(map[string]bool, count)
	second := a.sharer(&refused)
	for len(seen) < count {
		records, err := a.take(second, 1)
		if err != nil {
			return err
		}
		for _, record := range records {
			if seen[string(record.Value)] {
				return fmt.Errorf("%s came twice to the same member", record.Value)
			}
			seen[string(record.Value)] = true
		}
		second.MarkAcks(kgo.AckAccept)
	}
	if err := errors.Join(second.FlushAcks(a.ctx), refused); err != nil {
		return err
	}
	listed, err := a.admin.ListGroups(a.ctx)
	if _, isThere := listed[a.group]; err != nil || !isThere {
		return fmt.Errorf("the group is not listed: %v", err)
	}
	return nil
}

// One check at a time: node program.js BOOTSTRAP CHECK TOPIC GROUP. The result is printed as JSON.
const { Kafka, CompressionTypes, logLevel } = require('kafkajs')

const [bootstrap, check, topic, group] = process.argv.slice(2)
const kafka = new Kafka({ clientId: 'kafkajs', brokers: [bootstrap], logLevel: logLevel.ERROR })

async function withAdmin(work) {
  const admin = kafka.admin()
  await admin.connect()
  try {
    return await work(admin)
  } finally {
    await admin.disconnect()
  }
}

async function withProducer(options, work) {
  const producer = kafka.producer(options)
  await producer.connect()
  try {
    return await work(producer)
  } finally {
    await producer.disconnect()
  }
}

// Reads in a group until `count` records came, and commits what was read.
async function consume(count) {
  const consumer = kafka.consumer({ groupId: group, sessionTimeout: 10000, heartbeatInterval: 1000, maxWaitTimeInMs: 200 })
  await consumer.connect()
  await consumer.subscribe({ topic, fromBeginning: true })
  const found = []
  await new Promise((resolve, reject) => {
    consumer.on(consumer.events.CRASH, (event) => reject(event.payload.error))
    consumer
      .run({
        eachBatchAutoResolve: false,
        eachBatch: async ({ batch, resolveOffset, commitOffsetsIfNecessary, uncommittedOffsets }) => {
          for (const message of batch.messages) {
            const header = message.headers.n === undefined ? null : message.headers.n.toString()
            found.push([batch.partition, message.offset, String(message.key), String(message.value), header])
            resolveOffset(message.offset)
          }
          await commitOffsetsIfNecessary(uncommittedOffsets())
          if (found.length >= count) resolve()
        },
      })
      .catch(reject)
  })
  await consumer.disconnect()
  return found
}

const checks = {
  admin: () =>
    withAdmin(async (admin) => {
      await admin.createTopics({
        waitForLeaders: true,
        topics: [{ topic, numPartitions: 3, configEntries: [{ name: 'retention.ms', value: '3600000' }] }],
      })
      await admin.createPartitions({ topicPartitions: [{ topic, count: 5 }] })
      const { resources } = await admin.describeConfigs({
        includeSynonyms: false,
        resources: [{ type: 2, name: topic, configNames: ['retention.ms'] }],
      })
      const cluster = await admin.describeCluster()
      const ends = await admin.fetchTopicOffsets(topic)
      return { brokers: cluster.brokers.length, retention: resources[0].configEntries[0].configValue, ends: ends.length }
    }),
  produce: () =>
    withProducer({ idempotent: true, maxInFlightRequests: 1 }, async (producer) => {
      for (let batch = 0; batch < 10; batch++) {
        const messages = [...Array(100).keys()].map((one) => {
          const number = String(batch * 100 + one)
          return { key: `key-${number}`, value: `value-${number}`, headers: { n: number } }
        })
        await producer.send({ topic, messages, compression: CompressionTypes.GZIP })
      }
      return { sent: 1000 }
    }),
  consume: () => consume(Number(process.argv[6])),
  transactions: () =>
    withProducer({ transactionalId: group, idempotent: true, maxInFlightRequests: 1 }, async (producer) => {
      const aborted = await producer.transaction()
      await aborted.send({ topic, messages: [{ value: 'aborted' }] })
      await aborted.abort()
      const committed = await producer.transaction()
      await committed.send({ topic, messages: [{ value: 'committed' }] })
      await committed.sendOffsets({ consumerGroupId: group, topics: [{ topic, partitions: [{ partition: 0, offset: '7' }] }] })
      await committed.commit()
      return withAdmin((admin) => admin.fetchOffsets({ groupId: group, topics: [topic] }))
    }),
  groups: () =>
    withAdmin(async (admin) => {
      const { groups } = await admin.listGroups()
      const described = await admin.describeGroups([group])
      await admin.resetOffsets({ groupId: group, topic, earliest: true })
      const [{ partitions }] = await admin.fetchOffsets({ groupId: group, topics: [topic], resolveOffsets: true })
      await admin.deleteGroups([group])
      return { listed: groups.some((one) => one.groupId === group), state: described.groups[0].state, partitions }
    }),
}

checks[check]()
  .then((result) => console.log(JSON.stringify(result)))
  .catch((error) => {
    console.error(error)
    process.exit(1)
  })

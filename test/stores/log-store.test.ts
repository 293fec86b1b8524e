import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { appendLeaf, emptyHead, leafHash, type TreeHead } from '../../src/audit/tree.ts'
import type { Database } from '../../src/contract/database.ts'
import { type TenantId, tenantId } from '../../src/contract/principal.ts'
import type { ReadTx } from '../../src/contract/tx.ts'
import { sqlLogStore as store } from '../../src/stores/sql/log-store.ts'
import { dialects, openEmpty } from '../support/databases.ts'
import { ACME, NOW, OTHER } from '../support/sample-tasks.ts'

describe.each(dialects)('the log in %s', (dialect) => {
  let database: Database

  beforeEach(async () => {
    database = await openEmpty(dialect)
  })
  afterEach(() => database.close())

  const append = (tenant: TenantId, record: string, taskNumber: number | null = null) =>
    database.write(tenant, async (tx) => {
      const seq = store.nextSeq(tx, tenant)
      const recordHash = taskNumber === null ? null : `hash of ${record}`
      await store.appendEntry(tx, tenant, { atMs: NOW + seq, record, taskNumber, recordHash })
      return seq
    })

  it('is empty before the first entry', async () => {
    expect(await store.head(database.read, ACME)).toEqual({ size: 0, peaks: Buffer.alloc(0) })
    expect(await store.entries(database.read, ACME, 0, 10)).toEqual([])
    expect(await store.nodes(database.read, ACME, [])).toEqual(new Map())
    expect(await store.tenants(database.read)).toEqual([])
  })

  it('appends in order, with the head and the nodes of the tree', async () => {
    const records = Array.from({ length: 21 }, (_, index) => `{"record":"№ ${index} 😀"}`)
    const seqs = await Promise.all(records.map((record) => append(ACME, record)))
    expect(seqs).toEqual(records.map((_, index) => index))
    let head: TreeHead = emptyHead
    const nodes: Buffer[] = []
    for (const record of records) {
      const appended = appendLeaf(head, leafHash(record))
      head = appended.head
      nodes.push(appended.nodes)
    }
    expect(await store.head(database.read, ACME)).toEqual(head)
    const entries = await store.entries(database.read, ACME, 0, 100)
    expect(entries.map((entry) => entry.record)).toEqual(records)
    expect(entries.map((entry) => entry.seq)).toEqual(seqs)
    expect(entries.map((entry) => Buffer.from(entry.nodes))).toEqual(nodes)
    const raw = await store.rawEntries(database.read, ACME, 0, 100)
    expect(raw.map((entry) => ({ ...entry, record: Buffer.from(entry.record).toString() }))).toEqual(entries)
    expect((await store.rawEntries(database.read, ACME, 18, 2)).map((entry) => entry.seq)).toEqual([18, 19])
    expect((await store.entries(database.read, ACME, 18, 2)).map((entry) => entry.seq)).toEqual([18, 19])
    const some = await store.nodes(database.read, ACME, [0, 7, 15, 7, 400])
    expect([...some.keys()].sort((a, b) => a - b)).toEqual([0, 7, 15])
    expect(Buffer.from(some.get(15)!)).toEqual(nodes[15])
  })

  it('gives several entries of one transaction consecutive places', async () => {
    await database.write(ACME, async (tx) => {
      for (const record of ['a', 'b', 'c']) {
        await store.appendEntry(tx, ACME, { atMs: NOW, record, taskNumber: null, recordHash: null })
      }
      expect(store.nextSeq(tx, ACME)).toBe(3)
      expect((await store.entries(tx, ACME, 0, 10)).map((entry) => entry.record)).toEqual(['a', 'b', 'c'])
    })
    expect((await store.head(database.read, ACME)).size).toBe(3)
  })

  it('finds the trail records of a task in a range', async () => {
    const tasks = [1, null, 2, 1, 1, 2, null, 1]
    for (const [index, task] of tasks.entries()) await append(ACME, `r${index}`, task)
    const range = { fromSeq: 0, toSeq: 100 }
    expect(await store.trailRecords(database.read, ACME, 1, range)).toEqual(
      [0, 3, 4, 7].map((seq) => ({ seq, hash: `hash of r${seq}`, atMs: NOW + seq })),
    )
    const within = await store.trailRecords(database.read, ACME, 1, { fromSeq: 3, toSeq: 7 })
    expect(within.map((record) => record.seq)).toEqual([3, 4])
    expect(await store.trailRecords(database.read, ACME, 3, range)).toEqual([])
    const [entry] = await store.entries(database.read, ACME, 2, 1)
    expect(entry).toMatchObject({ taskNumber: 2, recordHash: 'hash of r2' })
  })

  it('finds the trail records of a task in a long log, also those of the transaction itself', async () => {
    const taskOf = (seq: number) => (seq % 7 === 6 ? null : 1 + (seq % 5))
    const seqsOf = (task: number, from: number, to: number) =>
      Array.from({ length: to - from }, (_, index) => from + index).filter((seq) => taskOf(seq) === task)
    const found = async (tx: ReadTx, task: number, fromSeq: number, toSeq: number) =>
      (await store.trailRecords(tx, ACME, task, { fromSeq, toSeq })).map(({ seq }) => seq)
    const size = 700
    for (let from = 0; from < size; from += 100) {
      const seqs = Array.from({ length: 100 }, (_, index) => from + index)
      await Promise.all(seqs.flatMap((seq) => [append(ACME, `r${seq}`, taskOf(seq)), append(OTHER, `o${seq}`, 2)]))
      for (const task of [1, 5, 9]) {
        expect(await found(database.read, task, 0, size)).toEqual(seqsOf(task, 0, from + 100))
        expect(await found(database.read, task, 50, 333)).toEqual(seqsOf(task, 50, Math.min(from + 100, 333)))
      }
    }
    const entry = { atMs: NOW, record: 'own', taskNumber: 3, recordHash: 'h' }
    await database.write(ACME, async (tx) => {
      await store.appendEntry(tx, ACME, entry)
      expect(await found(tx as unknown as ReadTx, 3, 0, size + 1)).toEqual([...seqsOf(3, 0, size), size])
    })
    const failing = database.write(ACME, async (tx) => {
      await store.appendEntry(tx, ACME, entry)
      throw new Error('mine')
    })
    await expect(failing).rejects.toThrow('mine')
    expect(await found(database.read, 3, 0, size + 9)).toEqual([...seqsOf(3, 0, size), size])
  })

  it('keeps one log per tenant', async () => {
    const names = ['b', 'a-b', 'ab', 'A', 'a']
    for (const name of names) await append(tenantId(name), `of ${name}`, 1)
    expect(await store.tenants(database.read)).toEqual(['A', 'a', 'a-b', 'ab', 'b'])
    for (const name of names) {
      const entries = await store.entries(database.read, tenantId(name), 0, 10)
      expect(entries.map((entry) => [entry.seq, entry.record])).toEqual([[0, `of ${name}`]])
    }
    expect((await store.head(database.read, OTHER)).size).toBe(0)
    expect(await store.nodes(database.read, OTHER, [0])).toEqual(new Map())
    expect(await store.trailRecords(database.read, OTHER, 1, { fromSeq: 0, toSeq: 9 })).toEqual([])
    const entry = { atMs: NOW, record: 'x', taskNumber: null, recordHash: null }
    const foreign = database.write(OTHER, (tx) => store.appendEntry(tx, ACME, entry))
    await expect(foreign).rejects.toThrow()
    await expect(database.write(OTHER, async (tx) => store.nextSeq(tx, ACME))).rejects.toThrow()
  })

  it('carries a record of a megabyte', async () => {
    const record = `"${'é'.repeat(1 << 20)}"`
    await append(ACME, record)
    expect((await store.entries(database.read, ACME, 0, 1))[0]!.record === record).toBe(true)
    expect(await store.head(database.read, ACME)).toEqual(appendLeaf(emptyHead, leafHash(record)).head)
  })
})

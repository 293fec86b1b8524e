import { afterAll, describe, expect, it } from 'vitest'
import { consistencyProof, inclusionProof, type ReadNode } from '../../test/support/proofs.ts'
import {
  buildTree,
  KEY,
  ORIGIN,
  OTHER_KEY,
  type SampleRecord,
  sampleEffects,
  sampleExport,
  sampleRecords,
  TENANT,
} from '../../test/support/sample-log.ts'
import { AppError } from '../contract/app-error.ts'
import { canonicalJson } from '../kernel/canonical-json.ts'
import { sha256Bytes, sha256Hex } from '../kernel/hash.ts'
import { signCheckpoint } from './checkpoint.ts'
import { consistencyDocument, exportHeaderLine, proofDocument } from './export-format.ts'
import { nodeLocation } from './proof.ts'
import { type VerifyResult, verifyDocument } from './verify-document.ts'
import type { VerifyInput } from './verify-input.ts'
import { type VerifyProblem, verifyRules } from './verify-problem.ts'

const seenRules = new Set<string>()

async function* chunksOf(bytes: Uint8Array, size: number): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size)
}

type Options = Partial<Omit<VerifyInput, 'chunks'>> & { chunkBytes?: number }

async function verify(file: string | Buffer, options: Options = {}): Promise<VerifyResult> {
  const { chunkBytes = 700, ...rest } = options
  const chunks = chunksOf(Buffer.from(file as string), chunkBytes)
  const result = await verifyDocument({ chunks, key: KEY.verifierKey, ...rest })
  if (!result.ok) seenRules.add(result.problem.rule)
  return result
}

/** `rule line seq field` of what is wrong. */
async function problem(file: string | Buffer, options: Options = {}): Promise<string> {
  const result = await verify(file, options)
  if (result.ok) throw new Error('expected a problem')
  const { rule, line, seq, field }: VerifyProblem = result.problem
  return [rule, line, seq, field].filter((part) => part !== undefined).join(' ')
}

const texts = sampleRecords().map((record) => canonicalJson(record))
const sound = sampleExport()
const fileOf = ({ header, records }: { header: string; records: readonly string[] }): string =>
  header + records.join('')
const soundFile = fileOf(sound)
const { nodes, root } = buildTree(texts)
const readNode: ReadNode = (level, index) => {
  const { seq, offset } = nodeLocation({ level, index })
  return nodes[seq]!.subarray(offset, offset + 32)
}
const noteAt = (size: number, signerKey = KEY.signerKey, origin = ORIGIN): string =>
  signCheckpoint({ origin, size, root: buildTree(texts.slice(0, size)).root }, signerKey)

/** An export whose server signed exactly these records, sound or not. */
const signedExport = (edit: (records: SampleRecord[]) => void): string => {
  const records = sampleRecords(structuredClone(sampleEffects()))
  edit(records)
  return fileOf(sampleExport(records.map((record) => canonicalJson(record))))
}
const withHeader = (members: Record<string, unknown>): string =>
  `${JSON.stringify({ ...JSON.parse(sound.header), ...members })}\n${sound.records.join('')}`

describe('a sound export', () => {
  it('verifies, whatever the chunks', async () => {
    for (const chunkBytes of [1, 7, 4096, 1 << 20]) {
      expect(await verify(soundFile, { chunkBytes })).toEqual({
        ok: true,
        kind: 'export',
        origin: ORIGIN,
        tenant: TENANT,
        size: 13,
        root: root.toString('hex'),
        records: 13,
        thoughts: 3,
        tasksWithThoughts: 2,
        bytesRead: Buffer.byteLength(soundFile),
        warnings: [],
      })
    }
    expect(await verify(soundFile.slice(0, -1))).toMatchObject({ ok: true, size: 13 })
    expect(await verify(fileOf(sampleExport([])))).toMatchObject({ ok: true, size: 0 })
  })

  it('reports progress', async () => {
    const seen: number[] = []
    await verify(soundFile, { onProgress: ({ records }) => seen.push(records) })
    expect(seen.length).toBeGreaterThan(5)
    expect(seen.at(-1)).toBe(13)
    expect(seen).toEqual(seen.toSorted((a, b) => a - b))
  })

  it('may go back in time, which is only remarked', async () => {
    const file = signedExport((records) => {
      records[8]!['at'] = '2020-01-01T00:00:00.000Z'
    })
    expect(await verify(file)).toMatchObject({ ok: true, warnings: [{ rule: 'time-backwards', count: 1, seq: 8 }] })
  })

  it('may log a call after those that it made, which is not remarked', async () => {
    const file = signedExport((records) => {
      Object.assign(records[9]!, { at: records[8]!['at'], duration_ms: 5_000 })
      records[8]!['at'] = records[10]!['at']!
    })
    expect(await verify(file)).toMatchObject({ ok: true, warnings: [] })
  })

  it('may have an entry for several calls', async () => {
    const file = signedExport((records) => {
      records[8] = {
        v: 1,
        kind: 'reads',
        at: records[8]!['at'],
        tenant: TENANT,
        calls: [{ call_id: 'a' }, { call_id: 'b' }],
      }
    })
    expect(await verify(file)).toMatchObject({ ok: true, size: 13, records: 13, thoughts: 3 })
  })

  it('agrees with checkpoints that were kept from before', async () => {
    for (const size of [0, 1, 5, 8, 13]) {
      expect(await verify(soundFile, { knownCheckpoint: noteAt(size) })).toMatchObject({ ok: true })
    }
  })
})

describe('an export is refused', () => {
  it.each([
    ['reads', undefined, undefined],
    ['reads', [], undefined],
    ['reads', {}, undefined],
    ['reads', ['a call'], undefined],
    ['reads', [{ call_id: 'a' }], []],
    ['call', [{ call_id: 'a' }], undefined],
  ])('when an entry for several calls is not one: %s %j %j', async (kind, calls, effects) => {
    const file = signedExport((records) => Object.assign(records[8]!, { kind, calls, effects }))
    expect(await problem(file)).toBe('record-shape 10 8 calls')
  })

  const line = (seq: number, edit: (text: string) => string): string =>
    fileOf({ ...sound, records: sound.records.with(seq, edit(sound.records[seq]!)) })

  it('when its header is not one', async () => {
    expect(await problem('')).toBe('format 1')
    expect(await problem('not JSON\n')).toBe('format 1')
    expect(await problem('[]\n')).toBe('format 1')
    expect(await problem(withHeader({ format: 'other/1' }))).toBe('format 1 format')
    for (const field of ['origin', 'tenant', 'size', 'checkpoint', 'key']) {
      expect(await problem(withHeader({ [field]: null }))).toBe(`header 1 ${field}`)
    }
  })

  it('when the key is not the trusted one', async () => {
    expect(await problem(soundFile, { key: OTHER_KEY.verifierKey })).toBe('wrong-key 1 key')
    const resigned = noteAt(13, OTHER_KEY.signerKey)
    expect(await problem(withHeader({ checkpoint: resigned }))).toBe('checkpoint-signer 1 checkpoint')
    await expect(verify(soundFile, { key: 'nonsense' })).rejects.toThrow(AppError)
    await expect(verify(soundFile, { key: KEY.signerKey })).rejects.toThrow(/private signer key/)
  })

  it('when its checkpoint is not what was signed', async () => {
    const changed = sound.checkpoint.replace('\n13\n', '\n12\n')
    expect(await problem(withHeader({ checkpoint: changed }))).toBe('checkpoint-signature 1 checkpoint')
    expect(await problem(withHeader({ checkpoint: 'x' }))).toBe('checkpoint-malformed 1 checkpoint')
    expect(await problem(withHeader({ size: 12 }))).toBe('checkpoint-size 1 size')
    expect(await problem(withHeader({ origin: 'castellan/log2/local' }))).toBe('checkpoint-origin 1 origin')
    expect(await problem(withHeader({ tenant: 'other' }))).toBe('tenant 1 tenant')
    const foreign = signCheckpoint({ origin: 'elsewhere', size: 13, root }, KEY.signerKey)
    expect(await problem(withHeader({ checkpoint: foreign, origin: 'elsewhere' }))).toBe('tenant 1 tenant')
  })

  it('when records are missing or too many', async () => {
    expect(await problem(fileOf({ ...sound, records: sound.records.slice(0, -1) }))).toBe('truncated 14 12')
    expect(await problem(sound.header)).toBe('truncated 2 0')
    expect(await problem(soundFile.slice(0, -5))).toBe('truncated 14 12')
    const wholeBytes = Buffer.from(soundFile)
    expect(await problem(wholeBytes.subarray(0, wholeBytes.lastIndexOf('Θ') + 1))).toMatch(/^truncated \d+ 7$/)
    expect(await problem(soundFile + sound.records[0])).toBe('extra-record 15 13')
    expect(await problem(`${soundFile}\n`)).toBe('extra-record 15 13')
    expect(await problem(`${soundFile}{`)).toBe('extra-record 15 13')
  })

  it('when a record was rewritten', async () => {
    expect(await problem(line(8, (text) => text.replace('{', '{ ')))).toBe('record-canonical 10 8')
    expect(await problem(line(8, (text) => text.replace('"any"', '"\\u0061ny"')))).toBe('record-canonical 10 8')
    expect(await problem(line(8, (text) => text.replace('"any"', '"\\ud800"')))).toBe('record-canonical 10 8')
    expect(await problem(line(8, (text) => text.replace('\n', '\r\n')))).toBe('record-canonical 10 8')
    expect(await problem(line(8, () => '\n'))).toBe('record-json 10 8')
    expect(await problem(line(8, () => `${'['.repeat(100_000)}${']'.repeat(100_000)}\n`))).toBe('record-canonical 10 8')
    const bytes = Buffer.from(soundFile)
    bytes[soundFile.indexOf('"tool":"any"') + 9] = 0xff
    expect(await problem(bytes)).toBe('record-encoding 2 0')
  })

  it('when a record was changed and everything about it still looks right', async () => {
    expect(await problem(line(8, (text) => text.replace('"any"', '"all"')))).toBe('root root')
    const swapped = sound.records.with(7, sound.records[8]!).with(8, sound.records[7]!)
    expect(await problem(fileOf({ ...sound, records: swapped }))).toBe('root root')
    expect(await problem(fileOf({ ...sound, records: sound.records.with(12, sound.records[11]!) }))).toBe('root root')
  })

  it('when a signed record breaks the rules of records', async () => {
    const shape = (members: Record<string, unknown>): Promise<string> =>
      problem(signedExport((records) => Object.assign(records[8]!, members)))
    expect(await shape({ v: 2 })).toBe('record-shape 10 8 v')
    expect(await shape({ v: 3, kind: 'reads', calls: [{}] })).toBe('record-shape 10 8 v')
    expect(await shape({ at: 5 })).toBe('record-shape 10 8 at')
    expect(await shape({ effects: {} })).toBe('record-shape 10 8 effects')
    expect(await shape({ tenant: 'other' })).toBe('record-tenant 10 8 tenant')
    expect(await shape({ effects: [{ kind: 'x' }] })).toBe('effect-shape 10 8 effects[0]')
    expect(await shape({ effects: [{ kind: 'x', body: {}, hash: '00' }] })).toBe('effect-hash 10 8 effects[0].hash')
    const body = { '10': 1, '9': 2, a: 3 }
    const effect = { kind: 'x', body, hash: sha256Hex(canonicalJson(body)) }
    expect(await verify(signedExport((records) => Object.assign(records[8]!, { effects: [effect] })))).toMatchObject({
      ok: true,
    })
    expect(await problem(fileOf(sampleExport(['5'])))).toBe('record-shape 2 0')
  })

  it('when a signed thought breaks its chain', async () => {
    const thought = (seq: number, members: Record<string, unknown>, hash?: string): Promise<string> =>
      problem(
        signedExport((records) => {
          const effect = records[seq]!.effects![0]!
          Object.assign(effect.body, members)
          if (hash !== undefined) effect.hash = hash
        }),
      )
    const body = (field: string): string => `effects[0].body.${field}`
    expect(await thought(6, { content: 'changed' })).toBe(`thought-hash 8 6 ${body('hash')}`)
    expect(await thought(6, { content: 5 })).toBe(`thought-shape 8 6 ${body('content')}`)
    expect(await thought(6, { chain_position: 3 })).toBe(`thought-position 8 6 ${body('chain_position')}`)
    expect(await thought(6, {}, '00')).toBe('effect-hash 8 6 effects[0].hash')
    const first = sampleEffects()[3]!
    const doubled = signedExport((records) => Object.assign(records[8]!, { effects: first }))
    expect(await problem(doubled)).toBe(`thought-link 10 8 ${body('previous_hash')}`)
  })

  it('when it is not the log that was known before', async () => {
    const rewritten = signedExport((records) => {
      records[2]!['tool'] = 'other'
    })
    expect(await verify(rewritten)).toMatchObject({ ok: true })
    expect(await problem(rewritten, { knownCheckpoint: noteAt(5) })).toBe('known-checkpoint root')
    expect(await verify(rewritten, { knownCheckpoint: noteAt(2) })).toMatchObject({ ok: true })
    const cut = fileOf(sampleExport(texts.slice(0, 12)))
    expect(await problem(cut, { knownCheckpoint: noteAt(13) })).toBe('known-checkpoint size')
    const elsewhere = noteAt(5, KEY.signerKey, 'castellan/log2/local')
    expect(await problem(soundFile, { knownCheckpoint: elsewhere })).toBe('known-checkpoint origin')
    const untrusted = noteAt(5, OTHER_KEY.signerKey)
    expect(await problem(soundFile, { knownCheckpoint: untrusted })).toBe('checkpoint-signer known checkpoint')
  })

  it('when a line never ends', async () => {
    const endless = (async function* () {
      yield Buffer.from(sound.header)
      for (;;) yield Buffer.alloc(8 << 20, 0x20)
    })()
    const result = await verifyDocument({ chunks: endless, key: KEY.verifierKey })
    expect(result).toMatchObject({ ok: false, problem: { rule: 'line-too-long' } })
    seenRules.add('line-too-long')
  })
})

describe('proof documents', () => {
  const proofOf = async (index: number, size: number) =>
    proofDocument({
      checkpoint: noteAt(size),
      verifierKey: KEY.verifierKey,
      index,
      size,
      record: texts[index]!,
      proof: inclusionProof(index, size, readNode),
    })

  it('verify for every entry, indented or not', async () => {
    for (const index of texts.keys()) {
      for (const indent of [0, 2]) {
        const file = `${JSON.stringify(await proofOf(index, 13), null, indent)}\n`
        const expected = { kind: 'inclusion', tenant: TENANT, index, size: 13, record: texts[index] }
        expect(await verify(file, { chunkBytes: 50 })).toMatchObject({ ok: true, ...expected })
      }
    }
    const single = JSON.stringify(await proofOf(0, 1))
    expect(await verify(single, { knownCheckpoint: noteAt(1) })).toMatchObject({ ok: true })
  })

  it('are refused for anything else', async () => {
    const document = await proofOf(6, 13)
    const changed = (members: Record<string, unknown>, options: Options = {}): Promise<string> =>
      problem(JSON.stringify({ ...document, ...members }), options)
    expect(await changed({ index: 5 })).toBe('inclusion 5 hashes')
    expect(await changed({ index: 99 })).toBe('inclusion 99 hashes')
    expect(await changed({ record: texts[5] })).toBe('inclusion 6 hashes')
    expect(await changed({ record: texts[6]!.replace('{', '{ ') })).toBe('record-canonical 1 6')
    expect(await changed({ record: texts[6]!.replace(TENANT, 'other') })).toBe('record-tenant 1 6 tenant')
    expect(await changed({ hashes: document.hashes.slice(1) })).toBe('inclusion 6 hashes')
    expect(await changed({ hashes: ['x'] })).toBe('header hashes[0]')
    expect(await changed({ hashes: 'x' })).toBe('header hashes')
    expect(await changed({ size: 12 })).toBe('checkpoint-size size')
    expect(await changed({ index: '6' })).toBe('header index')
    expect(await changed({ key: OTHER_KEY.verifierKey })).toBe('wrong-key key')
    expect(await changed({ checkpoint: noteAt(13, OTHER_KEY.signerKey) })).toBe('checkpoint-signer checkpoint')
    const elsewhere = signCheckpoint({ origin: 'elsewhere', size: 13, root }, KEY.signerKey)
    expect(await changed({ checkpoint: elsewhere })).toBe('checkpoint-origin origin')
    expect(await changed({}, { knownCheckpoint: noteAt(12) })).toBe('known-checkpoint known checkpoint')
    const forked = signCheckpoint({ origin: ORIGIN, size: 13, root: sha256Bytes('') }, KEY.signerKey)
    expect(await changed({}, { knownCheckpoint: forked })).toBe('known-checkpoint known checkpoint')
    expect(await problem(`${JSON.stringify(document)}\n{}\n`)).toBe('format')
  })
})

describe('consistency documents', () => {
  const documentOf = async (oldSize: number, newSize: number) =>
    consistencyDocument({
      oldCheckpoint: noteAt(oldSize),
      newCheckpoint: noteAt(newSize),
      verifierKey: KEY.verifierKey,
      proof: consistencyProof(oldSize, newSize, readNode),
    })

  it('verify between all sizes', async () => {
    for (let oldSize = 0; oldSize <= 13; oldSize++) {
      const file = JSON.stringify(await documentOf(oldSize, 13))
      const expected = { ok: true, kind: 'consistency', oldSize, size: 13, root: root.toString('hex') }
      expect(await verify(file, { knownCheckpoint: noteAt(oldSize) })).toMatchObject(expected)
    }
  })

  it('are refused for anything else', async () => {
    const document = await documentOf(6, 13)
    const changed = (members: Record<string, unknown>): Promise<string> =>
      problem(JSON.stringify({ ...document, ...members }))
    expect(await changed({ hashes: [] })).toBe('consistency hashes')
    expect(await changed({ old: noteAt(5) })).toBe('consistency hashes')
    expect(await changed({ old: noteAt(13), new: noteAt(6) })).toBe('checkpoint-size new')
    expect(await changed({ old: noteAt(6, OTHER_KEY.signerKey) })).toBe('checkpoint-signer old')
    expect(await changed({ new: 'x' })).toBe('checkpoint-malformed new')
    expect(await changed({ new: noteAt(13, KEY.signerKey, 'castellan/log2/local') })).toBe('checkpoint-origin new')
    const forked = signCheckpoint({ origin: ORIGIN, size: 6, root: sha256Bytes('') }, KEY.signerKey)
    expect(await changed({ old: forked })).toBe('consistency hashes')
  })
})

describe('the source', () => {
  it('is closed after the first problem, and its own errors pass through', async () => {
    let isClosed = false
    const chunks = (async function* () {
      try {
        yield Buffer.from('nonsense\n')
        yield Buffer.from('more')
      } finally {
        isClosed = true
      }
    })()
    await verifyDocument({ chunks, key: KEY.verifierKey })
    expect(isClosed).toBe(true)
    const failing = (async function* () {
      yield Buffer.from(exportHeaderLine({ ...JSON.parse(sound.header), verifierKey: KEY.verifierKey }))
      throw new Error('disk gone')
    })()
    await expect(verifyDocument({ chunks: failing, key: KEY.verifierKey })).rejects.toThrow('disk gone')
  })
})

afterAll(() => {
  expect([...seenRules].sort()).toEqual([...verifyRules].sort())
})

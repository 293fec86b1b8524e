import { spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { runCastellanHere } from '../support/castellan-here.ts'
import { homeEnvironment } from '../support/run-castellan.ts'

/** What leaves the program can be checked with the program alone: no server, no state, only files and a key. */
let home = ''
let dataDir = ''
let key = ''
let lines: string[] = []

beforeAll(async () => {
  home = mkdtempSync(join(tmpdir(), 'castellan-verify-'))
  dataDir = join(home, 'state')
  for (const title of ['one', 'two', 'three']) await call('task_create', `title=${title}`, 'project=p')
  await call('thought_record', 'task_id=T-0001', 'type=decision', 'content=Look first.')
  const exported = await run('export', 'log.jsonl', '--data-dir', dataDir, '--json')
  key = (JSON.parse(exported.stdout) as { key: string }).key
  lines = readFileSync(join(home, 'log.jsonl'), 'utf8').trimEnd().split('\n')
})
afterAll(() => rmSync(home, { recursive: true, force: true }))

const run = (...args: string[]) => runCastellanHere(args, { home })
const call = async (...args: string[]): Promise<Record<string, unknown>> =>
  JSON.parse((await run('call', ...args, '--data-dir', dataDir, '--json')).stdout) as Record<string, unknown>

function write(name: string, text: string): string {
  writeFileSync(join(home, name), text)
  return name
}

const exportOf = (name: string, of: readonly string[]): string => write(name, of.map((line) => `${line}\n`).join(''))

describe('an export', () => {
  test('verifies, with the key given in words or in a file, whatever line feeds follow it', async () => {
    for (const input of [
      key,
      `${key}\n`,
      write('log.key', key),
      write('feeds.key', `${key}\n\n\n`),
      write('a+b.key', `${key}\n`),
    ]) {
      const verified = await run('verify', 'log.jsonl', '--key', input)
      expect([verified.code, verified.stderr]).toEqual([0, ''])
      expect(verified.stdout).toMatch(/^verified: 4 entries of castellan\/\w+\/local, 1 thought, root \S+\n$/)
    }
  })

  test('is refused at the line that was changed', async () => {
    const changed = lines.with(2, lines[2]!.replace('two', 'owt'))
    expect(changed).not.toEqual(lines)
    const refused = await run('verify', exportOf('changed.jsonl', changed), '--key', key)
    expect(refused.code).toBe(5)
    expect(refused.stdout).toMatch(/^does not verify: .*\(line 3, entry 1.*\) \[.+\]\n$/)
    const { ok, problem } = JSON.parse((await run('verify', 'changed.jsonl', '--key', key, '--json')).stdout) as {
      ok: boolean
      problem: object
    }
    expect([ok, problem]).toEqual([false, expect.objectContaining({ line: 3, seq: 1 })])
  })

  test('is refused when its end was cut off, or another key signed it', async () => {
    const short = await run('verify', exportOf('short.jsonl', lines.slice(0, -1)), '--key', key)
    expect([short.code, short.stdout]).toEqual([5, expect.stringContaining('[truncated]')])
    const torn = await run('verify', write('torn.jsonl', lines.join('\n').slice(0, -40)), '--key', key)
    expect(torn.code).toBe(5)

    const elsewhere = ['--data-dir', join(home, 'elsewhere'), '--json']
    const { stdout } = await run('call', 'log_checkpoint', ...elsewhere)
    const wrong = await run('verify', 'log.jsonl', '--key', (JSON.parse(stdout) as { key: string }).key)
    expect([wrong.code, wrong.stdout]).toEqual([5, expect.stringMatching(/^does not verify: /)])
  })

  test('cannot be verified without a key or without the file', async () => {
    expect(await run('verify', 'log.jsonl')).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('--key is missing'),
    })
    expect(await run('verify', 'log.jsonl', '--key', 'not a key+')).toMatchObject({ code: 2 })
    expect(await run('verify', 'log.jsonl', '--key', 'none.key')).toMatchObject({
      code: 3,
      stderr: expect.stringMatching(/^error: --key: 'none\.key' is neither a verifier key .* nor an existing file/),
    })
    expect(await run('verify', 'none.jsonl')).toMatchObject({
      code: 3,
      stderr: expect.stringMatching(/^error: Cannot read none\.jsonl/),
    })
    expect(await run('verify', 'none.jsonl', '--key', key)).toMatchObject({ code: 3 })
  })

  test('is not begun where it cannot be written, and replaces nothing when there is no log to write', async () => {
    const refused = await run('export', join(home, 'no', 'such', 'folder'), '--data-dir', dataDir)
    expect([refused.code, refused.stderr]).toEqual([
      2,
      expect.stringMatching(/^error: Cannot write .*: its folder does not exist\./),
    ])
    const retained = write('kept.jsonl', 'what was here\n')
    expect((await run('export', retained, '--data-dir', dataDir, '--mode', 'MINIMAL')).code).toBe(4)
    expect(readFileSync(join(home, retained), 'utf8')).toBe('what was here\n')
  })

  test('goes to standard output as it is', async () => {
    const { stdout } = await run('export', '-', '--data-dir', dataDir)
    expect(stdout.split('\n').slice(1, 5)).toEqual(lines.slice(1, 5))
  })
})

describe('proofs', () => {
  test('of one entry and of growth verify, with the kept checkpoint, whatever line feeds follow it', async () => {
    const retained = String((await call('log_checkpoint'))['checkpoint'])
    await call('task_create', 'title=later', 'project=p')

    const entry = write('entry.proof', JSON.stringify(await call('log_inclusion_proof', 'seq=1')))
    const included = await run('verify', entry, '--key', key)
    expect([included.code, included.stdout]).toEqual([0, expect.stringMatching(/^verified: entry 1 is in castellan\//)])

    const proof = await call('log_consistency_proof', '--args', JSON.stringify({ old_checkpoint: retained }))
    const growth = write('growth.proof', JSON.stringify(proof))
    const { stdout } = await run('export', 'later.jsonl', '--data-dir', dataDir)
    // Nothing is called castellan here, and what is printed works all the same.
    const printed = /^Verify with: (.+)$/m.exec(stdout)![1]!
    const followed = spawnSync('sh', ['-c', printed], { cwd: home, encoding: 'utf8', env: homeEnvironment(home) })
    expect(followed.stdout).toMatch(/^verified: /)
    for (const note of [retained, `${retained}\n`, `${retained}\n\n\n`, retained.trimEnd()]) {
      const checkpoint = write('kept.checkpoint', note)
      const grown = await run('verify', growth, '--key', key, '--checkpoint', checkpoint)
      expect([grown.code, grown.stdout]).toEqual([0, expect.stringMatching(/ of size \d+ extends its size \d+\n$/)])
      expect((await run('verify', 'later.jsonl', '--key', key, '--checkpoint', checkpoint)).code).toBe(0)
    }
    expect((await run('verify', 'log.jsonl', '--key', key, '--checkpoint', 'kept.checkpoint')).code).toBe(5)
  })

  test('of growth from what is no checkpoint are refused by the name of the field', async () => {
    const refused = await run('call', 'log_consistency_proof', 'old_checkpoint=foo', '--data-dir', dataDir, '--json')
    expect([refused.code, JSON.parse(refused.stderr)]).toEqual([
      2,
      { error: expect.objectContaining({ message: expect.stringMatching(/^'old_checkpoint' must be a checkpoint /) }) },
    ])
  })

  test('that were changed do not', async () => {
    const proof = (await call('log_inclusion_proof', 'seq=1')) as { index?: number }
    const changed = JSON.stringify(proof).replace('two', 'owt')
    const refused = await run('verify', write('changed.proof', changed), '--key', key)
    expect([refused.code, refused.stdout]).toEqual([5, expect.stringMatching(/^does not verify: /)])
  })
})

test('the state is checked against its log, and one changed row is one finding', async () => {
  const sound = await run('verify', '--data-dir', dataDir)
  expect([sound.code, sound.stdout]).toEqual([0, expect.stringMatching(/^1 tenant, \d+ log entries: sound\n$/)])
  const database = new DatabaseSync(join(dataDir, 'castellan.db'))
  database.exec("UPDATE tasks SET title = 'changed behind the back' WHERE title = 'three'")
  database.close()
  const found = await run('verify', '--data-dir', dataDir)
  expect([found.code, found.stdout]).toEqual([
    5,
    expect.stringMatching(/tasks .*title.*\n1 tenant, \d+ log entries: 1 finding\n$/),
  ])
  const doctor = await run('doctor', '--data-dir', dataDir)
  expect([doctor.code, doctor.stdout]).toEqual([
    6,
    expect.stringMatching(/^state +bad +1 finding; run castellan verify$/m),
  ])
})

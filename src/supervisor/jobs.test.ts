import { execFileSync } from 'node:child_process'
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { systemClock } from '../kernel/clock.ts'
import { createJobLog } from './job-log.ts'
import { type Jobs, openJobs } from './jobs.ts'
import type { Command } from './run-in-workspace.ts'

const MIB = 1024 ** 2
let base = ''
beforeEach(() => {
  base = mkdtempSync(join(tmpdir(), 'castellan-jobs-'))
})
afterEach(() => rmSync(base, { recursive: true, force: true }))

const start = { stdout: 0, stderr: 0 }
const diskBytes = (): number =>
  readdirSync(base, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .reduce((sum, entry) => sum + statSync(join(entry.parentPath, entry.name)).size, 0)

/** Jobs whose commands print and end when the test says so. */
async function open() {
  const commands: { print(bytes: Buffer): void; end(): void }[] = []
  const run = async (command: Command) => {
    let end = (): void => {}
    const ended = new Promise<{ exitCode: number; signal: null }>((resolve) => {
      end = () => resolve({ exitCode: 0, signal: null })
    })
    commands.push({ print: (bytes) => void command.onOutput('stdout', bytes), end })
    return { pid: 1, ended, signal() {} }
  }
  const jobs = await openJobs({ directory: base, run, clock: systemClock })
  const begin = async () => {
    const jobId = await jobs.start({ argv: ['x'], env: {}, timeoutMs: 0 })
    return { jobId, ...commands.at(-1)! }
  }
  return { jobs, begin }
}
const ended = (jobs: Jobs, id: number) =>
  expect.poll(() => jobs.list().find(({ jobId }) => jobId === id)?.running).toBe(false)

describe('the jobs of a workspace', () => {
  it('keep a bounded amount of output together; what is oldest and finished falls out first, and poll says so', async () => {
    const { jobs, begin } = await open()
    const running = await begin()
    running.print(Buffer.alloc(3 * MIB, 'r'))
    const finished: number[] = []
    for (let count = 0; count < 10; count++) {
      const job = await begin()
      job.print(Buffer.alloc(8 * MIB, String(count)))
      job.end()
      await ended(jobs, job.jobId)
      finished.push(job.jobId)
    }
    expect(diskBytes()).toBeLessThan(65 * MIB)
    const first = await jobs.poll(finished[0]!, start, MIB)
    expect(first).toMatchObject({ next: { stdout: 8 * MIB }, skipped: { stdout: 8 * MIB } })
    expect(first?.stdout).toHaveLength(0)
    const last = await jobs.poll(finished.at(-1)!, start, 10 * MIB)
    expect([last?.stdout.equals(Buffer.alloc(8 * MIB, '9')), last?.skipped.stdout]).toEqual([true, 0])
    expect((await jobs.poll(running.jobId, start, 10 * MIB))?.stdout).toHaveLength(3 * MIB)

    const again = await open()
    expect(await again.jobs.poll(finished[0]!, start, MIB)).toEqual(first)
    expect(await again.jobs.poll(finished.at(-1)!, start, 10 * MIB)).toEqual(last)
    const more = await again.begin()
    more.print(Buffer.alloc(8 * MIB, 'm'))
    expect(diskBytes()).toBeLessThan(65 * MIB)
  })

  it('that all run give up what the loudest of them said first', async () => {
    const { jobs, begin } = await open()
    const all = await Promise.all(Array.from({ length: 12 }, begin))
    all[0]!.print(Buffer.from('quiet'))
    for (const job of all.slice(1)) job.print(Buffer.alloc(8 * MIB, 'x'))
    expect(diskBytes()).toBeLessThan(65 * MIB)
    expect((await jobs.poll(all[0]!.jobId, start, MIB))?.stdout.toString()).toBe('quiet')
  })
})

/** Needs root, to mount a file system that is full. */
describe('on a full disk', () => {
  afterEach(() => {
    execFileSync('umount', [base])
  })

  it('a job that cannot be noted is none', async () => {
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'nr_inodes=2', 'none', base])
    const { jobs, begin } = await open()
    await expect(begin()).rejects.toThrow('ENOSPC')
    expect([jobs.list(), readdirSync(base)]).toEqual([[], []])
  })

  it('output is counted as lost and told of, and goes on when there is room', async () => {
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=1m', 'none', base])
    const log = createJobLog(join(base, 'stdout'))
    log.append(Buffer.alloc(600_000, 'a'))
    log.append(Buffer.alloc(600_000, 'b'))
    log.append(Buffer.alloc(1_000, 'c'))
    const retained = readdirSync(base).reduce((sum, name) => sum + readFileSync(join(base, name)).length, 0)
    expect(retained).toBeLessThanOrEqual(MIB)
    const page = await log.read(0, 10 * MIB)
    expect(page).toMatchObject({ next: retained, skipped: 0 })
    expect(page.bytes.equals(Buffer.concat([Buffer.alloc(600_000, 'a'), Buffer.alloc(retained - 600_000, 'b')]))).toBe(
      true,
    )
    expect(await log.read(retained, MIB)).toMatchObject({ next: 1_201_000, skipped: 1_201_000 - retained })

    execFileSync('mount', ['-o', 'remount,size=8m', base])
    log.append(Buffer.from('after'))
    const rest = await log.read(retained, MIB)
    expect([rest.bytes.toString(), rest.next, rest.skipped]).toEqual(['after', 1_201_005, 1_201_000 - retained])
    const reopened = await createJobLog(join(base, 'stdout')).read(0, 10 * MIB)
    expect([reopened.next, reopened.skipped]).toEqual([retained, 0])
  })
})

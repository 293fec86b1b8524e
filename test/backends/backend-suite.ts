import { randomUUID } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import {
  type CapabilityName,
  closedNetwork,
  type ExecRequest,
  type ExecResult,
  type JobReport,
  type WorkspaceBackend,
  type WorkspaceSpec,
} from '../../src/domains/workspaces/backend.ts'

const waitFor = (condition: () => Promise<boolean>) => vi.waitUntil(condition, { timeout: 180_000, interval: 20 })

export type SuiteBackend = Readonly<{
  backend: WorkspaceBackend
  /** Another client of the same back end, as a server has after a restart. */
  reopen(): WorkspaceBackend
  close(): Promise<void>
}>

export type SuiteImage = Readonly<{
  name: string
  /** Of commands in it, as the kernel prints them. */
  capabilities: string
}>
const NO_CAPABILITIES = '0000000000000000'
const hostImage: SuiteImage = { name: 'host', capabilities: '00000000000000cb' }
/** Where a single id is mapped there is nobody else to be. */
export const hostImageOfOneId: SuiteImage = { name: 'host', capabilities: NO_CAPABILITIES }

/** What holds for every back end. A capability that is off is declared, and the case that needs it says so. */
export function describeBackend(
  title: string,
  openBackend: () => Promise<SuiteBackend>,
  image: SuiteImage = hostImage,
): void {
  describe(title, () => {
    let suite: SuiteBackend
    let backend: WorkspaceBackend
    beforeAll(async () => {
      suite = await openBackend()
      backend = suite.backend
    })
    afterAll(async () => await suite?.close())

    const specOf = (more: Partial<WorkspaceSpec> = {}): Omit<WorkspaceSpec, 'ip'> => ({
      id: randomUUID(),
      hostname: 'suite',
      image: image.name,
      layers: [],
      resources: { vcpus: 2, memoryMb: 512, diskGb: 1 },
      network: closedNetwork,
      ...more,
    })
    async function started(more: Partial<WorkspaceSpec> = {}): Promise<WorkspaceSpec> {
      const wanted = specOf(more)
      const spec = { ...wanted, ip: (await backend.create(wanted)).ip }
      await backend.start(spec)
      return spec
    }
    const shell = (id: string, command: string, more: Partial<ExecRequest> = {}): Promise<ExecResult> =>
      backend.exec(id, {
        argv: ['/bin/sh', '-c', command],
        env: { PATH: '/usr/local/bin:/usr/bin:/bin', HOME: '/root' },
        timeoutMs: 30_000,
        outputBytesMax: 65_536,
        signal: new AbortController().signal,
        ...more,
      })
    const out = (result: ExecResult): string => Buffer.from(result.stdout.head).toString()
    const say = async (id: string, command: string): Promise<string> => out(await shell(id, command)).trim()
    const isEnforced = async (name: CapabilityName): Promise<boolean> =>
      (await backend.capabilities()).capabilities[name].enforced

    describe('commands', () => {
      let id: string
      beforeAll(async () => {
        id = (await started()).id
      })
      afterAll(async () => await backend.destroy(id))

      it('gives both pipes, the exit code and the host name', async () => {
        const result = await shell(id, 'hostname; echo problem >&2; exit 3')
        expect(result).toMatchObject({ exitCode: 3, signal: null, ended: 'exit' })
        expect(out(result)).toBe('suite\n')
        expect(Buffer.from(result.stderr.head).toString()).toBe('problem\n')
      })

      it('reports the signal that ended a command, and an exit code of 137 as what it is', async () => {
        expect(await shell(id, 'kill -9 $$')).toMatchObject({ exitCode: null, signal: 'SIGKILL' })
        expect(await shell(id, 'exit 137')).toMatchObject({ exitCode: 137, signal: null })
      })

      it('keeps head and tail of long output with exact counts', async () => {
        const result = await shell(id, 'printf BEGIN; head -c 3000000 /dev/zero | tr "\\0" x; printf END', {
          outputBytesMax: 1000,
        })
        expect(result.stdout.totalBytes).toBe(3_000_008)
        expect(result.stdout.omittedBytes).toBe(3_000_008 - 1000)
        expect(Buffer.from(result.stdout.head).toString()).toMatch(/^BEGINx{495}$/)
        expect(Buffer.from(result.stdout.tail).toString()).toMatch(/^x{497}END$/)
      })

      it('keeps the same of what it streams, which is all of it', async () => {
        let streamed = 0
        const result = await shell(id, 'printf BEGIN; head -c 3000000 /dev/zero | tr "\\0" x; printf END', {
          outputBytesMax: 1000,
          onOutput(_stream, chunk) {
            streamed += chunk.length
          },
        })
        expect([streamed, result.stdout.totalBytes]).toEqual([3_000_008, 3_000_008])
        expect(result.stdout.omittedBytes).toBe(3_000_008 - 1000)
        expect(Buffer.from(result.stdout.head).toString()).toMatch(/^BEGINx{495}$/)
        expect(Buffer.from(result.stdout.tail).toString()).toMatch(/^x{497}END$/)
      })

      it('does not block on either pipe being full', async () => {
        const result = await shell(id, 'head -c 500000 /dev/zero >&2; head -c 500000 /dev/zero')
        expect([result.stdout.totalBytes, result.stderr.totalBytes]).toEqual([500_000, 500_000])
      })

      it('streams output while the command runs', async () => {
        let seen = ''
        const result = await shell(id, 'echo first; while [ ! -e /seen ]; do sleep 0.02; done; echo second', {
          onOutput(_stream, chunk) {
            // Without the first line now, the second is never written.
            if (seen === '') void backend.files(id).write('/seen', Buffer.from(''))
            seen += Buffer.from(chunk).toString()
          },
        })
        expect(seen).toBe('first\nsecond\n')
        expect(result.exitCode).toBe(0)
      })

      it('gives standard input of any size to the command', async () => {
        const result = await shell(id, 'wc -c', { stdin: Buffer.alloc(3_000_000, 7) })
        expect(out(result).trim()).toBe('3000000')
        expect(await say(id, 'cat; echo end')).toBe('end')
        expect(await shell(id, 'true', { stdin: Buffer.alloc(3_000_000, 7) })).toMatchObject({ exitCode: 0 })
      })

      it('hands over the ends of the pipes of a command, and lets it end when its input does', async () => {
        const pieces: Buffer[] = []
        const errors: string[] = []
        const result = await shell(id, 'echo ready >&2; wc -c; echo last > /dev/stdout; exit 3', {
          onOutput: (stream, chunk) => errors.push(`${stream} ${Buffer.from(chunk)}`),
          onPipes({ stdin, stdout }) {
            stdout.on('data', (piece: Buffer) => pieces.push(piece))
            stdin.end(Buffer.alloc(3_000_000, 7))
          },
        })
        expect(result).toMatchObject({ exitCode: 3, ended: 'exit' })
        expect(Buffer.concat(pieces).toString()).toBe('3000000\nlast\n')
        expect(errors.join('')).toBe('stderr ready\n')
      })

      it('ends a command whose pipes were handed over when the caller cancels, and loses nothing that it printed', async () => {
        const cancel = new AbortController()
        let seen = ''
        const handedOver = Promise.withResolvers<void>()
        const running = shell(id, 'printf printed; exec sleep 4000', {
          signal: cancel.signal,
          onPipes({ stdout }) {
            stdout.on('data', (piece: Buffer) => (seen += piece.toString()))
            handedOver.resolve()
          },
        })
        await waitFor(async () => (await say(id, 'ps -eo args | grep -c "^sleep 4000"')) === '1')
        // The command may run before the caller has its pipes.
        await handedOver.promise
        cancel.abort()
        await expect(running).rejects.toMatchObject({ code: 'ERR_CANCELLED' })
        expect(seen).toBe('printed')
        await waitFor(async () => (await say(id, 'ps -eo args | grep -c "^sleep 4000"')) === '0')
        let left = ''
        const onPipes: ExecRequest['onPipes'] = ({ stdout }) =>
          void stdout.on('data', (piece) => (left += String(piece)))
        expect(await shell(id, 'sleep 4001 & echo done', { onPipes })).toMatchObject({ exitCode: 0 })
        expect(left).toBe('done\n')
        await shell(id, 'pkill -f "sleep 4001"')
        await expect(shell(id, '', { argv: ['no-such-program'], onPipes })).rejects.toMatchObject({
          code: 'ERR_COMMAND_FAILED',
        })
      })

      it('lets a command open its own output again by name', async () => {
        const result = await shell(id, 'echo one > /dev/stdout; echo two > /dev/stderr')
        expect([out(result), Buffer.from(result.stderr.head).toString()]).toEqual(['one\n', 'two\n'])
      })

      it('returns what was printed when the time is up, and kills what the command started', async () => {
        const result = await shell(id, 'echo before; sleep 1000 & setsid sleep 1001 & sleep 1002', { timeoutMs: 400 })
        expect(result).toMatchObject({ ended: 'timeout', signal: 'SIGKILL' })
        expect(out(result)).toBe('before\n')
        await waitFor(async () => (await say(id, 'ps -eo args | grep -c "^sleep 100[0-2]"')) === '0')
      })

      it('kills the command when the caller cancels', async () => {
        const cancel = new AbortController()
        const running = shell(id, 'sleep 2000', { signal: cancel.signal })
        await waitFor(async () => (await say(id, 'ps -eo args | grep -c "^sleep 2000"')) === '1')
        cancel.abort()
        await expect(running).rejects.toMatchObject({ code: 'ERR_CANCELLED' })
        await waitFor(async () => (await say(id, 'ps -eo args | grep -c "^sleep 2000"')) === '0')
      })

      it('does not wait for a process that the command left behind', async () => {
        const result = await shell(id, 'sleep 3000 & echo done')
        expect(out(result)).toBe('done\n')
        await shell(id, 'pkill -f "sleep 3000"')
      })

      it('runs without a shell when none is given, and says what cannot be run', async () => {
        expect(out(await shell(id, '', { argv: ['printf', '%s|', '$HOME', '; rm'] }))).toBe('$HOME|; rm|')
        await expect(shell(id, '', { argv: ['no-such-program'] })).rejects.toMatchObject({
          code: 'ERR_COMMAND_FAILED',
          details: { exit_code: 127 },
        })
        await expect(shell(id, 'true', { workdir: '/no/such/folder' })).rejects.toThrow(/\/no\/such\/folder/)
      })

      it('has the capabilities of its image and no other, no new privileges, and a filter', async () => {
        const status = await say(id, 'cat /proc/self/status')
        const displayed = (name: string) => new RegExp(`^${name}:\\s(\\w+)$`, 'm').exec(status)?.[1]
        expect(['CapPrm', 'CapEff', 'CapBnd'].map(displayed)).toEqual(Array(3).fill(image.capabilities))
        expect(['CapInh', 'CapAmb'].map(displayed)).toEqual(Array(2).fill(NO_CAPABILITIES))
        expect([displayed('NoNewPrivs'), displayed('Seccomp')]).toEqual(['1', '2'])
      })
    })

    describe('background jobs', () => {
      let id: string
      beforeAll(async () => {
        id = (await started()).id
      })
      afterAll(async () => await backend.destroy(id))
      const job = (command: string, more: object = {}) =>
        backend.jobs.start(id, {
          argv: ['/bin/sh', '-c', command],
          env: { PATH: '/usr/bin:/bin' },
          timeoutMs: 0,
          ...more,
        })
      const poll = async (jobId: number, from = { stdout: 0, stderr: 0 }): Promise<JobReport> =>
        (await backend.jobs.poll(id, jobId, from, 65_536))!
      const ended = async (jobId: number): Promise<JobReport> => {
        await waitFor(async () => !(await poll(jobId)).running)
        return await poll(jobId)
      }

      it('gives increments with a cursor while the job runs, and keeps the job when it has ended', async () => {
        const { jobId } = await job('echo one; while [ ! -e /go ]; do sleep 0.05; done; echo two; exit 4')
        await waitFor(async () => Buffer.from((await poll(jobId)).stdout).toString() === 'one\n')
        const first = await poll(jobId)
        expect(first.running).toBe(true)
        await shell(id, 'touch /go')
        const last = await ended(jobId)
        expect(last).toMatchObject({ running: false, exitCode: 4 })
        expect(Buffer.from((await poll(jobId, first.next)).stdout).toString()).toBe('two\n')
        expect(await backend.jobs.remove(id, jobId)).toBe(true)
        expect(await backend.jobs.poll(id, jobId, { stdout: 0, stderr: 0 }, 10)).toBeUndefined()
      })

      it('kills the whole group', async () => {
        const { jobId } = await job('sleep 4000 & sleep 4001')
        await waitFor(async () => (await say(id, 'ps -eo args | grep -c "^sleep 400[01]"')) === '2')
        expect(await backend.jobs.kill(id, jobId, 15)).toBe(true)
        expect(await ended(jobId)).toMatchObject({ signal: 'SIGTERM' })
        await waitFor(async () => (await say(id, 'ps -eo args | grep -c "^sleep 400[01]"')) === '0')
        expect(await backend.jobs.kill(id, 9_999, 9)).toBe(false)
      })

      it('lives on without its server, and another server finds it', async () => {
        const { jobId } = await job('while [ ! -e /later ]; do sleep 0.05; done; echo survived')
        const other = suite.reopen()
        expect(await other.jobs.list(id)).toContainEqual(expect.objectContaining({ jobId, running: true }))
        await other.files(id).write('/later', Buffer.from(''))
        await other.close()
        expect(Buffer.from((await ended(jobId)).stdout).toString()).toBe('survived\n')
      })

      it('starts one job for one key', async () => {
        const both = await Promise.all([job('sleep 0.1', { key: 'k' }), job('sleep 0.1', { key: 'k' })])
        expect(both[0]).toEqual(both[1])
      })

      it('bounds what it keeps and says what fell out', async () => {
        const { jobId } = await job('head -c 20000000 /dev/zero')
        const report = await ended(jobId)
        expect(report.skipped.stdout).toBeGreaterThan(10_000_000)
        expect(report.next.stdout - report.stdout.length).toBe(report.skipped.stdout)
      })
    })

    describe('snapshots and forks', () => {
      it('copies state into a layer that forks start from, apart from each other', async () => {
        const golden = await started()
        await shell(golden.id, 'mkdir -p /workspace/repo; echo base > /workspace/repo/a; rm /etc/profile')
        const layer = randomUUID()
        await backend.snapshot(golden.id, layer)
        await shell(golden.id, 'echo later > /workspace/repo/a')
        const forks = await Promise.all([1, 2, 3].map((n) => started({ layers: [layer], hostname: `fork-${n}` })))
        expect(
          await Promise.all(forks.map(({ id }) => say(id, 'cat /workspace/repo/a; hostname; ls /etc/profile 2>&1'))),
        ).toEqual([1, 2, 3].map((n) => expect.stringMatching(new RegExp(`^base\nfork-${n}\n.*No such file`))))
        const machineIds = await Promise.all(forks.map(({ id }) => say(id, 'cat /etc/machine-id')))
        expect(new Set(machineIds).size).toBe(3)
        await Promise.all([golden, ...forks].map(({ id }) => backend.destroy(id)))
        await backend.removeLayer(layer)
      })

      it('is of one instant though a process writes', async () => {
        const source = await started()
        await backend.jobs.start(source.id, {
          argv: ['/bin/sh', '-c', 'i=0; while :; do i=$((i+1)); echo $i > /a; echo $i > /b; done'],
          env: { PATH: '/usr/bin:/bin' },
          timeoutMs: 0,
        })
        await waitFor(async () => Number(await say(source.id, 'cat /b || echo 0')) > 50)
        for (let round = 0; round < 5; round++) {
          const layer = randomUUID()
          await backend.snapshot(source.id, layer)
          const copy = await started({ layers: [layer] })
          const [a, b] = (await say(copy.id, 'cat /a; echo; cat /b')).split(/\n+/).map(Number)
          // A write truncates first, so one of the two may be empty; never may the second be ahead of the first.
          if (a !== 0 && b !== 0 && a !== undefined && b !== undefined) expect([a, a - 1]).toContain(b)
          await backend.destroy(copy.id)
          await backend.removeLayer(layer)
        }
        const before = Number(await say(source.id, 'cat /b || echo 0'))
        await waitFor(async () => Number(await say(source.id, 'cat /b || echo 0')) > before)
        await backend.destroy(source.id)
      })

      it('goes back to its layers', async () => {
        const spec = await started()
        await shell(spec.id, 'echo kept > /kept')
        const layer = randomUUID()
        await backend.snapshot(spec.id, layer)
        await shell(spec.id, 'echo lost > /lost')
        await backend.stop(spec.id, 100)
        await backend.reset({ ...spec, layers: [layer] })
        await backend.start({ ...spec, layers: [layer] })
        expect(await say(spec.id, 'cat /kept; ls /lost 2>&1')).toMatch(/^kept\n.*No such file/)
        await backend.destroy(spec.id)
        await backend.removeLayer(layer)
      })
    })

    describe('lifecycle', () => {
      it('keeps files over a stop, ends processes gently first, and may be repeated', async () => {
        const spec = await started()
        await backend.start(spec)
        await shell(spec.id, 'echo here > /workspace/file')
        const { jobId } = await backend.jobs.start(spec.id, {
          argv: ['/bin/sh', '-c', 'trap "echo gently > /workspace/end; exit" TERM; while :; do sleep 0.02; done'],
          env: { PATH: '/usr/bin:/bin' },
          timeoutMs: 0,
        })
        await delay(100)
        await backend.stop(spec.id, 5_000)
        await backend.stop(spec.id, 5_000)
        await expect(shell(spec.id, 'true')).rejects.toMatchObject({ code: 'ERR_WORKSPACE_STATE' })
        await backend.start(spec)
        expect(await say(spec.id, 'cat /workspace/file /workspace/end')).toBe('here\ngently')
        expect(await backend.jobs.list(spec.id)).toContainEqual(expect.objectContaining({ jobId, running: false }))
        await backend.destroy(spec.id)
        await backend.destroy(spec.id)
        expect((await backend.inventory()).stored).not.toContain(spec.id)
      })

      it('creates many at once with addresses of their own, and leaves nothing behind', async () => {
        const before = await backend.inventory()
        const specs = await Promise.all(Array.from({ length: 12 }, () => started()))
        expect(new Set(specs.map(({ ip }) => ip)).size).toBe(12)
        expect(await Promise.all(specs.map(({ id }) => say(id, 'echo up')))).toEqual(specs.map(() => 'up'))
        await Promise.all(specs.map(({ id }) => backend.destroy(id)))
        expect(await backend.inventory()).toEqual(before)
      })

      it('enforces the limits that it declares', async () => {
        const spec = await started({ resources: { vcpus: 1, memoryMb: 64, diskGb: 0.1, processes: 40 } })
        const memory = await say(spec.id, 'head -c 128m /dev/zero | tail -c 128m | wc -c')
        expect(memory !== String(128 * 1024 ** 2)).toBe(await isEnforced('memory_limit'))
        const disk = await say(spec.id, 'head -c 160m /dev/zero > /big && sync && echo all')
        expect(disk !== 'all').toBe(await isEnforced('disk_limit'))
        const processes = await say(
          spec.id,
          'i=0; while [ $i -lt 80 ]; do sleep 3 & i=$((i+1)); done 2>/dev/null; echo all',
        )
        expect(processes !== 'all').toBe(await isEnforced('process_limit'))
        await backend.destroy(spec.id)
      })
    })
  })
}

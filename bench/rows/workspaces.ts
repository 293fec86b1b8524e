import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type Bench, newDirectory, type Section } from '../bench-context.ts'
import { type Connection, callTool } from '../client.ts'
import { distributionPlot, type Series } from '../distribution-plot.ts'
import { median } from '../interleave.ts'
import { openStdio } from '../launch.ts'
import { mebibytesText, msText } from '../table.ts'

/** What a bare sandbox of the same kind costs: the same namespaces around the same program, nothing kept, nothing checked. */
const bareBwrap = [
  'bwrap',
  ...['--unshare-all', '--ro-bind', '/usr', '/usr', '--symlink', 'usr/bin', '/bin', '--symlink', 'usr/lib', '/lib'],
  ...['--symlink', 'usr/lib64', '/lib64', '--proc', '/proc', '--dev', '/dev', '--tmpfs', '/tmp', '--'],
]

const timed = async (work: () => Promise<unknown>): Promise<number> => {
  const started = performance.now()
  await work()
  return performance.now() - started
}

/** Runs a program and waits for its first output, or for its end. */
const run = async (argv: readonly string[]): Promise<void> => {
  const child = spawn(argv[0]!, argv.slice(1), { stdio: ['ignore', 'pipe', 'inherit'] })
  child.stdout.resume()
  const [code] = (await once(child, 'close')) as [number | null]
  if (code !== 0) throw new Error(`${argv.join(' ')} ended with ${code}`)
}

type Pair = Readonly<{
  what: string
  peer: string
  atMost: number | null
  rounds: number
  ours(): Promise<number>
  floor(): Promise<number>
}>

const percentile = (sorted: readonly number[], share: number): number =>
  sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))] ?? Number.NaN

/** In turns, so that noise hits both alike. */
async function compare(bench: Bench, pair: Pair, plots: Series[]): Promise<void> {
  bench.progress(pair.what)
  const [ours, floor]: [number[], number[]] = [[], []]
  await pair.ours()
  await pair.floor()
  for (let round = 0; round < pair.rounds; round++) {
    ours.push(await pair.ours())
    floor.push(await pair.floor())
  }
  const [oursSorted, floorSorted] = [ours, floor].map((values) => values.toSorted((a, b) => a - b)) as [
    number[],
    number[],
  ]
  const spread = (sorted: readonly number[]): string =>
    ['p50', 'p95', 'p99']
      .map((name, index) => `${name} ${msText(percentile(sorted, [0.5, 0.95, 0.99][index]!))}`)
      .join(', ')
  plots.push({ name: pair.what, values: oursSorted }, { name: `floor: ${pair.peer}`, values: floorSorted })
  bench.report({
    what: pair.what,
    inFlight: 1,
    ours: msText(median(ours)),
    peer: `${pair.peer} ${msText(median(floor))}`,
    ratio: median(ours) / median(floor),
    target: pair.atMost === null ? null : { atMost: pair.atMost },
    note: `ours ${spread(oursSorted)}; floor ${spread(floorSorted)}`,
  })
}

type Created = Readonly<{ workspace_id: string }>

/** A sandbox that stays, as the floor for a command in an existing one. */
async function holdBare(): Promise<{ pid: number; end(): void }> {
  const child = spawn('bwrap', ['--info-fd', '3', ...bareBwrap.slice(1), '/bin/sh', '-c', 'echo up; sleep 600'], {
    stdio: ['ignore', 'pipe', 'inherit', 'pipe'],
  })
  let text = ''
  const info = child.stdio[3] as NodeJS.ReadableStream
  info.setEncoding('utf8').on('data', (chunk: string) => {
    text += chunk
  })
  await once(child.stdout!, 'data')
  return { pid: (JSON.parse(text) as { 'child-pid': number })['child-pid'], end: () => child.kill('SIGKILL') }
}

/** The same in a container without network over the host's root, with the first of its runtimes that works here. */
async function findPodman(): Promise<readonly string[] | undefined> {
  const limits = ['--ulimit', 'nofile=1024:1024', '--ulimit', 'nproc=1024:1024']
  const container = ['run', '--rm', '--network', 'none', ...limits, '--rootfs', '/:O', '/bin/sh', '-c', 'echo up']
  for (const runtime of [[], ['--runtime', 'runc']]) {
    const argv = ['podman', '--cgroup-manager', 'cgroupfs', ...runtime, ...container]
    const child = spawn(argv[0]!, argv.slice(1), { stdio: 'ignore' })
    const code = await new Promise<number | null>((resolve) =>
      child.on('error', () => resolve(null)).on('close', resolve),
    )
    if (code === 0) return argv
  }
  return undefined
}

async function overlayFloor(directory: string): Promise<(count: number) => Promise<void>> {
  const lower = join(directory, 'lower')
  await mkdir(lower, { recursive: true })
  let made = 0
  const one = async (): Promise<void> => {
    const folder = join(directory, `fork-${made++}`)
    for (const name of ['u', 'w', 'm']) await mkdir(join(folder, name), { recursive: true })
    const options = `userxattr,lowerdir=${lower},upperdir=${folder}/u,workdir=${folder}/w`
    const script = `mount -t overlay o -o ${options} ${folder}/m && exec ${bareBwrap.join(' ')} /bin/sh -c 'echo up'`
    await run(['unshare', '-Urm', 'sh', '-c', script])
  }
  return async (count) => void (await Promise.all(Array.from({ length: count }, one)))
}

export const workspaces: Section = {
  name: 'workspaces',
  timeNeededMs: (quick) => (quick ? 30_000 : 120_000),
  async run(bench) {
    const directory = await newDirectory(bench)
    const connection = await openStdio(bench.subject.stdio(directory))
    const plots: Series[] = []
    try {
      await compareAll(bench, connection, directory, plots)
      await reportIdle(bench, connection, directory)
    } finally {
      await connection.close()
      const pid = Number(await readFile(join(directory, 'workspaces/supervisor.pid'), 'utf8').catch(() => '0'))
      if (pid > 0) process.kill(pid, 'SIGKILL')
    }
    if (!bench.quick)
      await writeFile(join(import.meta.dirname, '../../docs/workspace-latency.svg'), distributionPlot(plots))
  },
}

async function compareAll(bench: Bench, connection: Connection, directory: string, plots: Series[]): Promise<void> {
  const call = async <T>(name: string, args: Readonly<Record<string, unknown>>): Promise<T> =>
    (await callTool(connection, name, args)) as T
  const rounds = bench.quick ? 10 : 100
  const retained = await call<Created>('workspace_create', { name: 'bench' })
  const bare = await holdBare()
  try {
    const firstOutput = async (): Promise<number> => {
      let id = ''
      const ms = await timed(async () => {
        id = (await call<Created>('workspace_create', {})).workspace_id
        await call('exec', { workspace_id: id, command: 'echo up' })
      })
      await call('workspace_destroy', { workspace_id: id })
      return ms
    }
    const what = 'workspace_create to the first output of exec'
    const floor = () => timed(() => run([...bareBwrap, '/bin/sh', '-c', 'echo up']))
    await compare(bench, { what, peer: 'bare bwrap sh -c echo', atMost: 3, rounds, ours: firstOutput, floor }, plots)
    const podman = await findPodman()
    if (podman !== undefined) {
      const peer = {
        peer: 'podman run sh -c echo',
        atMost: null,
        rounds: rounds / 10,
        floor: () => timed(() => run(podman)),
      }
      await compare(bench, { what: `${what}, beside podman`, ours: firstOutput, ...peer }, [])
    }
    await compare(
      bench,
      {
        what: 'exec in a running workspace',
        peer: 'nsenter sh -c true',
        atMost: 3,
        rounds: rounds * 2,
        ours: () => timed(() => call('exec', { workspace_id: retained.workspace_id, command: 'true' })),
        floor: () => timed(() => run(['nsenter', '-t', String(bare.pid), '-a', '/bin/sh', '-c', 'true'])),
      },
      plots,
    )
  } finally {
    bare.end()
  }
  await compareCopies(bench, call, retained.workspace_id, await overlayFloor(join(directory, 'floor')), plots)
}

async function compareCopies(
  bench: Bench,
  call: <T>(name: string, args: Readonly<Record<string, unknown>>) => Promise<T>,
  id: string,
  bareForks: (count: number) => Promise<void>,
  plots: Series[],
): Promise<void> {
  const rounds = bench.quick ? 5 : 30
  await call('exec', { workspace_id: id, command: 'mkdir -p /workspace && cp -r /usr/share/perl5 /workspace/' })
  let count = 0
  await compare(
    bench,
    {
      what: 'snapshot',
      peer: 'bare overlay mount in a namespace',
      atMost: 3,
      rounds,
      async ours() {
        const name = `s${count++}`
        const ms = await timed(() => call('snapshot', { workspace_id: id, action: 'create', name }))
        await call('snapshot', { workspace_id: id, action: 'delete', name })
        return ms
      },
      floor: () => timed(() => bareForks(1)),
    },
    plots,
  )
  await call('snapshot', { workspace_id: id, action: 'create', name: 'golden' })
  await compare(
    bench,
    {
      what: 'workspace_fork of 20',
      peer: '20 bare overlay forks at once',
      atMost: 2,
      rounds: bench.quick ? 2 : 10,
      async ours() {
        let workers: readonly Created[] = []
        const ms = await timed(async () => {
          const args = { workspace_id: id, snapshot_name: 'golden', count: 20, name_prefix: `f${count++}` }
          workers = (await call<{ workers: readonly Created[] }>('workspace_fork', args)).workers
        })
        if (workers.length !== 20) throw new Error(`only ${workers.length} of 20 forks came up`)
        await Promise.all(workers.map(({ workspace_id }) => call('workspace_destroy', { workspace_id })))
        return ms
      },
      floor: () => timed(() => bareForks(20)),
    },
    plots,
  )
}

/** What twenty workspaces that do nothing cost the machine, each. */
async function reportIdle(bench: Bench, connection: Connection, directory: string): Promise<void> {
  const pid = Number(await readFile(join(directory, 'workspaces/supervisor.pid'), 'utf8'))
  const before = await familyCost(pid)
  const ids: string[] = []
  for (let n = 0; n < 20; n++) ids.push(((await callTool(connection, 'workspace_create', {})) as Created).workspace_id)
  const after = await familyCost(pid)
  bench.report({
    what: 'an idle workspace: memory and processes',
    inFlight: null,
    ours: `${mebibytesText((after.bytes - before.bytes) / 20)}, ${(after.count - before.count) / 20}`,
    peer: `the supervisor itself ${mebibytesText(before.bytes)}`,
    ratio: null,
    target: null,
    note: 'proportional set size over all processes of the supervisor, 20 workspaces',
  })
  for (const id of ids) await callTool(connection, 'workspace_destroy', { workspace_id: id })
}

async function familyCost(root: number): Promise<{ bytes: number; count: number }> {
  let bytes = 0
  let count = 0
  const open = [root]
  for (let pid = open.pop(); pid !== undefined; pid = open.pop()) {
    const rollup = await readFile(`/proc/${pid}/smaps_rollup`, 'utf8').catch(() => '')
    bytes += Number(/^Pss:\s+(\d+) kB/m.exec(rollup)?.[1] ?? 0) * 1024
    count += 1
    const children = await readFile(`/proc/${pid}/task/${pid}/children`, 'utf8').catch(() => '')
    open.push(...children.trim().split(' ').filter(Boolean).map(Number))
  }
  return { bytes, count }
}

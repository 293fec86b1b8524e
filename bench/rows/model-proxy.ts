/**
 * A chat request to a model that answers at once, through us and through others. Ours authenticates a key, reserves and settles the
 * cost under a limit, has policies, and records every request; the pass-through does none of that.
 */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type Bench, newDirectory, roundsOf, type Section, warmUpFully } from '../bench-context.ts'
import { type Connection, drive } from '../client.ts'
import { openHttpConnection } from '../http-connection.ts'
import { comparisonNote, interleave, median, type Turn } from '../interleave.ts'
import { castellan, freePort, type HttpServerProcess, type Launch, postTool, startHttp } from '../launch.ts'
import { npmFolder } from '../npm-peers.ts'
import { processorTimeMs } from '../processor-time.ts'
import { msText, rateText } from '../table.ts'

type Contender = Turn &
  Readonly<{
    name: string
    /** The same request, for a stream of 200 KB. */
    streamBody: string
    /** Portkey answers 500 to each stream on this Node: it changes headers that cannot be changed. */
    hasStreams: boolean
    openStream(onFirstChunk: () => void): Connection
    stop(): Promise<void>
  }>
type Address = Readonly<{ name: string; path: string; model: string; headers: Readonly<Record<string, string>> }>

const inFlights = [1, 10, 50]
const MODEL = 'bench-model'
const POLICIES = 20
const question =
  'Which of these three plans has the fewest steps, and what does each step need before it can begin? '.repeat(4)
const bodyOf = (model: string, isStream: boolean): string =>
  JSON.stringify({
    model,
    max_tokens: 1_000,
    messages: [{ role: 'user', content: question }],
    ...(isStream && { stream: true }),
  })

const peerFile = (name: string, file: string, ...args: readonly string[]): Launch => ({
  name,
  command: process.execPath,
  args: [join(import.meta.dirname, '..', 'peers', file), ...args],
})

function contender({ name, path, model, headers }: Address, server: HttpServerProcess, port: number): Contender {
  const target = {
    port,
    path,
    pid: server.pid,
    isBare: true,
    headers: { 'Content-Type': 'application/json', ...headers },
  }
  const body = bodyOf(model, false)
  return {
    name,
    connection: openHttpConnection(target),
    body: () => body,
    streamBody: bodyOf(model, true),
    hasStreams: !name.startsWith('Portkey'),
    openStream: (onFirstChunk) => openHttpConnection({ ...target, onFirstChunk }),
    stop: () => server.stop(),
  }
}

async function started(launch: Launch, port: number, address: Omit<Address, 'name'>): Promise<Contender> {
  return contender({ name: launch.name, ...address }, await startHttp(launch, port, address.path), port)
}

/** Starts us with a provider at this port, a key, a limit on cost and policies. */
export async function startOurs(
  directory: string,
  mockPort: number,
  environment: Record<string, string> = {},
): Promise<Contender> {
  const port = await freePort()
  const price = { input_cost_per_million: 1, output_cost_per_million: 4 }
  const models = [{ alias: 'default', model: MODEL, ...price }]
  const endpoint = `http://127.0.0.1:${mockPort}/v1`
  const providers = [{ name: 'bench', type: 'openai-compatible', endpoint, models }]
  writeFileSync(join(directory, 'castellan.yaml'), JSON.stringify({ models: { providers } }), { mode: 0o600 })
  const server = await startHttp({ ...castellan.http!(directory, port), environment }, port, '/mcp')
  try {
    const post = (tool: string, args: object) => postTool(port, tool, args)
    const { secret } = await post('api_key_create', { name: 'bench', role: 'admin' })
    const limit = { limit_type: 'token_cost', limit_value: 1_000_000 }
    await post('create_limit', { entity_type: 'organization', entity_id: 'local', ...limit })
    for (let n = 0; n < POLICIES; n++) {
      await post('create_tool_invocation_policy', {
        toolId: 'web.fetch',
        conditions: [{ key: 'url', operator: 'startsWith', value: `https://host-${n}.example/` }],
        action: 'block_always',
      })
    }
    const headers = { Authorization: `Bearer ${secret}` }
    return contender({ name: 'ours', path: '/v1/bench/chat/completions', model: MODEL, headers }, server, port)
  } catch (error) {
    await server.stop()
    throw error
  }
}

export async function startMock(port: number): Promise<Contender> {
  return started(peerFile('the model itself', 'model-mock.ts', `${port}`), port, {
    path: '/v1/chat/completions',
    model: MODEL,
    headers: {},
  })
}

async function startPassThrough(mockPort: number): Promise<Contender> {
  const port = await freePort()
  const launch = peerFile('undici pass-through', 'undici-pass-through.ts', `${port}`, `${mockPort}`)
  return started(launch, port, { path: '/v1/chat/completions', model: MODEL, headers: {} })
}

async function portkey(mockPort: number): Promise<Contender> {
  const port = await freePort()
  const packages = ['@portkey-ai/gateway@1.15.2', '@hono/node-server@1.14.1']
  const program = join(npmFolder('portkey-gateway-1.15.2', packages), 'node_modules', '.bin', 'gateway')
  const launch = { name: 'Portkey 1.15.2', command: process.execPath, args: [program, `--port=${port}`, '--headless'] }
  const headers = {
    Authorization: 'Bearer none',
    'x-portkey-provider': 'openai',
    'x-portkey-custom-host': `http://127.0.0.1:${mockPort}/v1`,
  }
  return started(launch, port, { path: '/v1/chat/completions', model: MODEL, headers })
}

async function llms(mockPort: number): Promise<Contender> {
  const port = await freePort()
  const folder = npmFolder('musistudio-llms-1.0.53', ['@musistudio/llms@1.0.53'])
  const launch = peerFile('llms 1.0.53', 'llms-gateway.ts', `${port}`, `${mockPort}`, folder)
  return started(launch, port, { path: '/v1/chat/completions', model: `bench,${MODEL}`, headers: {} })
}

/** Milliseconds of processor time of a request, in turns, and the ratio of ours to each. */
async function processorTimes(
  bench: Bench,
  contenders: readonly Contender[],
  load: Readonly<{ inFlight: number; body: (one: Contender) => string }>,
): Promise<readonly Readonly<{ ms: number; ratio: number }>[]> {
  const rounds = bench.quick ? 3 : 7
  const spent = contenders.map((): number[] => [])
  for (let round = 0; round < rounds; round++) {
    for (const [index, one] of contenders.entries()) {
      const body = load.body(one)
      const before = processorTimeMs([one.connection.pid])
      const { calls } = await drive(one.connection, {
        inFlight: load.inFlight,
        callsMax: Number.POSITIVE_INFINITY,
        timeMaxMs: bench.quick ? 400 : 1_000,
        body: () => body,
      })
      spent[index]!.push((processorTimeMs([one.connection.pid]) - before) / calls)
    }
  }
  const [own = []] = spent
  return spent.map((values) => ({
    ms: median(values),
    ratio: median(values.map((value, round) => own[round]! / value)),
  }))
}

const STREAMS_OF_A_TURN = 20

/**
 * Median milliseconds from a request for a stream to its first event, in turns of so many requests one after the other. In turns of
 * one, each process has slept while the others had theirs.
 */
async function firstChunks(
  bench: Bench,
  contenders: readonly Contender[],
  requests: number,
): Promise<readonly number[]> {
  const rounds = (bench.quick ? 40 : 200) / Math.min(requests, 4)
  const times = contenders.map((): number[] => [])
  const measured = contenders.map((one, index) => {
    let sentAt = 0
    const connection = one.openStream(() => times[index]!.push(performance.now() - sentAt))
    const ask = (): Promise<void> =>
      new Promise((resolve, reject) => {
        sentAt = performance.now()
        connection.send(one.streamBody, (answer) => (answer instanceof Error ? reject(answer) : resolve()))
      })
    return { ask, close: () => connection.close() }
  })
  for (let round = 0; round < rounds; round++) {
    for (const { ask } of measured) for (let left = requests; left > 0; left--) await ask()
  }
  for (const { close } of measured) await close()
  return times.map(median)
}

export const modelProxy: Section = {
  name: 'model-proxy',
  timeNeededMs: (quick) => (quick ? 70_000 : 190_000),
  async run(bench) {
    const contenders: Contender[] = []
    try {
      const mockPort = await freePort()
      contenders.push(await startMock(mockPort))
      for (const open of [async () => startOurs(await newDirectory(bench), mockPort), startPassThrough, portkey, llms])
        contenders.push(await open(mockPort))
      const [direct, first, floor, ...others] = contenders as [Contender, Contender, Contender, ...Contender[]]
      const peers = [floor, ...others, direct]
      const what = 'a chat request, 1 KB answer'
      for (const { connection, body } of contenders) await warmUpFully(connection, body)
      for (const inFlight of inFlights) {
        const compared = await interleave(first, peers, { inFlight, ...roundsOf(bench) })
        for (const [index, one] of compared.entries()) {
          const { name } = peers[index]!
          const isLoaded = inFlight > 1
          bench.report({
            what,
            inFlight,
            ours: rateText(one.ours.perSecond),
            peer: `${name} ${rateText(one.peer.perSecond)}`,
            ratio: one.ratio,
            target:
              name === floor.name && isLoaded ? { atLeast: 0.4 } : name.startsWith('Portkey') ? { atLeast: 3 } : null,
            note: comparisonNote(one),
          })
          if (peers[index] === direct && inFlight === 1) {
            bench.report({
              what: 'added to the median time of a request, in ms',
              inFlight,
              ours: msText(one.ours.p50Ms),
              peer: `${name} ${msText(one.peer.p50Ms)}`,
              ratio: one.ours.p50Ms - one.peer.p50Ms,
              target: { atMost: 0.4 },
            })
          }
        }
      }
      await reportProcessorTime(bench, [first, floor, ...others])
      const streaming = [first, floor, ...others].filter(({ hasStreams }) => hasStreams)
      await reportStreams(bench, streaming, direct)
    } finally {
      for (const { connection } of contenders) await connection.close()
      for (const { stop } of contenders.reverse()) await stop()
    }
  },
}

const microsText = (ms: number): string => `${Math.round(ms * 1_000)} µs`

async function reportProcessorTime(bench: Bench, contenders: readonly Contender[]): Promise<void> {
  const times = await processorTimes(bench, contenders, { inFlight: 10, body: (one) => one.body(0) })
  for (const [index, { ms, ratio }] of times.entries()) {
    if (index === 0) continue
    bench.report({
      what: 'processor time of a chat request',
      inFlight: 10,
      ours: microsText(times[0]!.ms),
      peer: `${contenders[index]!.name} ${microsText(ms)}`,
      ratio,
      target: null,
      ...(index === 1 && { note: 'ours is to be 170 µs at most' }),
    })
  }
}

async function reportStreams(bench: Bench, contenders: readonly Contender[], direct: Contender): Promise<void> {
  const all = [...contenders, direct]
  for (const { connection, streamBody } of all) await warmUpFully(connection, () => streamBody)
  for (const requests of [STREAMS_OF_A_TURN, 1]) {
    const first = await firstChunks(bench, all, requests)
    const last = first.length - 1
    for (const [index, { name }] of all.entries()) {
      if (index === last) continue
      const when = requests === 1 ? ', after a pause' : ''
      bench.report({
        what: `added to the first event of a stream by ${index === 0 ? 'ours' : name}${when}, in ms`,
        inFlight: 1,
        ours: msText(first[index]!),
        peer: `${direct.name} ${msText(first[last]!)}`,
        ratio: first[index]! - first[last]!,
        target: index === 0 ? { atMost: 0.4 } : null,
      })
    }
  }
  const times = await processorTimes(bench, contenders, { inFlight: 4, body: (one) => one.streamBody })
  for (const [index, { ms, ratio }] of times.entries()) {
    if (index === 0) continue
    bench.report({
      what: 'processor time of a stream of 200 KB',
      inFlight: 4,
      ours: msText(times[0]!.ms),
      peer: `${contenders[index]!.name} ${msText(ms)}`,
      ratio,
      target: null,
      ...(index === 1 && { note: 'ours is to be 1 ms at most' }),
    })
  }
}

import type { Clock } from '../kernel/clock.ts'
import type { EgressBroker } from './egress-broker.ts'
import type { Images } from './images/index.ts'
import type { NetworkHub } from './network/network-hub.ts'
import type { Bounded, FrameType, SupervisorFacts, WireExec, WireExecResult, WirePipes } from './protocol.ts'
import type { Registry } from './registry.ts'
import { createRetainedOutput } from './retained-output.ts'
import type { Exchange, Handlers } from './serve-requests.ts'

type HandlerDeps = Readonly<{
  registry: Registry
  images: Images
  network: NetworkHub
  egress: EgressBroker
  clock: Clock
  facts(): SupervisorFacts
  /** One entry for each connected server. */
  clients: Set<Readonly<{ bootId: string }>>
  isIdleBut(bootId: string): boolean
  shutdown(): void
}>

const SIGKILL = 9
const CHUNK_BYTES = 256 * 1024

/** Maps each operation to its handler. No decision is made here. */
export function createHandlers({
  registry,
  images,
  network,
  egress,
  clock,
  facts,
  clients,
  isIdleBut,
  shutdown,
}: HandlerDeps): Handlers {
  const done = async (work: Promise<unknown>): Promise<Record<string, never>> => {
    await work
    return {}
  }
  let nameServer: string | undefined
  const filesOf = (id: string, within: Bounded['within']) => registry.files(id, within ?? undefined)
  return {
    hello: facts,
    async attend(client, { signal }) {
      if (signal.aborted) return {}
      clients.add(client)
      await new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve()))
      clients.delete(client)
      return {}
    },
    create: registry.create,
    start: (spec) => done(registry.start(spec)),
    stop: ({ id, graceMs }) => done(registry.stop(id, graceMs)),
    destroy: ({ id }) => done(registry.destroy(id)),
    inventory: registry.inventory,
    isRunning: async ({ id }) => ({ running: await registry.isRunning(id) }),
    exec: (request, exchange) => execute(registry, clock, request, exchange),
    jobStart: async ({ id, job }) => ({ jobId: await registry.jobs(id).start(job) }),
    async jobPoll({ id, jobId, from, bytesMax }) {
      const page = await (await registry.retainedJobs(id)).poll(jobId, from, bytesMax)
      if (page === undefined)
        return { summary: null, stdout: '', stderr: '', next: from, skipped: { stdout: 0, stderr: 0 } }
      return { ...page, stdout: page.stdout.toString('base64'), stderr: page.stderr.toString('base64') }
    },
    jobKill: async ({ id, jobId, signal }) => ({ found: (await registry.retainedJobs(id)).kill(jobId, signal) }),
    jobRemove: async ({ id, jobId }) => ({ found: await (await registry.retainedJobs(id)).remove(jobId) }),
    jobList: async ({ id }) => (await registry.retainedJobs(id)).list(),
    snapshot: ({ id, layerId }) => registry.snapshot(id, layerId),
    reset: (spec) => done(registry.reset(spec)),
    removeLayer: ({ layerId }) => done(registry.removeLayer(layerId)),
    setNetwork: ({ id, network: spec }) => done(registry.setNetwork(id, spec)),
    resize: ({ id, resources }) => done(registry.resize(id, resources)),
    reserveHostPort: async ({ wanted, range }) => ({
      port: (await network.reserveHostPort(wanted ?? undefined, range)) ?? null,
    }),
    async configure({ hostAddresses, credentials, resolver, authorities }) {
      const trusted = egress.trustedAuthorities()
      egress.configure({ credentials, resolver: resolver ?? undefined, authorities })
      nameServer = resolver ?? undefined
      egress.setHostAddresses(hostAddresses)
      await network.setHostNetwork({ hostAddresses, resolver: nameServer })
      if (egress.trustedAuthorities() !== trusted) await registry.refreshNetworkFiles()
      return {}
    },
    hostAddresses({ addresses }) {
      egress.setHostAddresses(addresses)
      return done(network.setHostNetwork({ hostAddresses: addresses, resolver: nameServer }))
    },
    probeNetwork: () => network.probe(),
    usage: ({ id }) => registry.usage(id),
    refused: ({ id }) => registry.refused(id),
    logs: ({ id, lines }) => registry.log(id, lines),
    images: () => images.list(),
    removeImage: ({ name }, { signal }) => done(registry.removeImage(name, signal)),
    fileStat: ({ id, within, path }) => filesOf(id, within).stat(path),
    fileList: ({ id, within, path, limit }) => filesOf(id, within).list(path, limit),
    async fileRead({ id, within, path, offset, length }, { send, signal }) {
      const range = length === null ? undefined : { offset, length }
      const { size, stream } = await filesOf(id, within).read(path, range)
      signal.addEventListener('abort', () => stream.destroy())
      await send('data', Buffer.from(JSON.stringify({ size })))
      for await (const chunk of stream as AsyncIterable<Buffer>) {
        await sendChunks(send, 'data', chunk)
      }
      return {}
    },
    fileWrite: ({ id, within, path, mode }, { body }) =>
      filesOf(id, within).write(path, body, mode === null ? {} : { mode }),
    fileRemove: ({ id, within, path, recursive }) => done(filesOf(id, within).remove(path, { recursive })),
    fileMakeDirectory: ({ id, within, path }) => done(filesOf(id, within).makeDirectory(path)),
    fileRename: ({ id, within, from, to }) => done(filesOf(id, within).rename(from, to)),
    shutdown() {
      setImmediate(shutdown)
      return {}
    },
    shutdownIfIdle({ bootId }) {
      const ending = isIdleBut(bootId)
      if (ending) setImmediate(shutdown)
      return { ending }
    },
  }
}

async function execute(
  registry: Registry,
  clock: Clock,
  request: WireExec,
  { body, signal, send }: Exchange,
): Promise<WireExecResult> {
  const retained = {
    stdout: createRetainedOutput(request.outputBytesMax),
    stderr: createRetainedOutput(request.outputBytesMax),
  }
  const startMs = clock.monotonicMs()
  // A client that disconnects will not take the pipes.
  const taken = new Promise<void>((resolve) => body.once('end', resolve).once('close', resolve))
  if (!request.hasStdin) body.resume()
  const command = await registry.run(request.id, {
    argv: request.argv,
    workdir: request.workdir,
    env: request.env,
    stdin: request.hasStdin ? body : undefined,
    ...(request.lends && {
      async lend(pipes: WirePipes) {
        await send('data', Buffer.from(JSON.stringify(pipes)))
        await taken
      },
    }),
    onOutput(stream, chunk) {
      if (request.streams) return send(stream, chunk)
      retained[stream].add(chunk)
    },
  })
  let ended: WireExecResult['ended'] = 'exit'
  const end = (why: WireExecResult['ended']): void => {
    ended = why
    command.signal(SIGKILL)
  }
  const timer = request.timeoutMs > 0 ? setTimeout(() => end('timeout'), request.timeoutMs) : undefined
  const onRevoked = (): void => end('cancelled')
  signal.addEventListener('abort', onRevoked)
  if (signal.aborted) onRevoked()
  const result = await command.ended
  clearTimeout(timer)
  signal.removeEventListener('abort', onRevoked)
  const durationMs = clock.monotonicMs() - startMs
  const omitted = { stdout: 0, stderr: 0 }
  for (const stream of ['stdout', 'stderr'] as const) {
    const { head, tail, omittedBytes } = retained[stream].result()
    await sendChunks(send, stream, head)
    await sendChunks(send, stream, tail)
    omitted[stream] = omittedBytes
  }
  return { ...result, omitted, durationMs, ended }
}

/** Split into frames that a reader can handle without joining many pieces. */
async function sendChunks(send: Exchange['send'], type: FrameType, bytes: Uint8Array): Promise<void> {
  for (let at = 0; at < bytes.length; at += CHUNK_BYTES) await send(type, bytes.subarray(at, at + CHUNK_BYTES))
}

import type { Call } from '../../contract/call.ts'
import { limits } from '../../contract/limits.ts'
import { type ExecRequest, type ExecResult, egressEndpoints, type LimitName } from './backend.ts'
import { type Core, cancelled, sharedWhileRunning } from './core.ts'
import { type ImageDefaults, inWorkdir } from './image-defaults.ts'
import { decodeText, type OutputText, outputText } from './output-text.ts'
import type { Workspace } from './ports.ts'
import { checkEnv, exitCodeOf } from './rules.ts'

type RunRequest = Readonly<{
  argv: readonly string[]
  workdir?: string | undefined
  /** Overrides the defaults and the variables of set_env. */
  env?: Readonly<Record<string, string>> | undefined
  /** Names that the command does not get, even if the image or set_env sets them. */
  isHidden?(name: string): boolean
  stdin?: string | Uint8Array | undefined
  timeoutMs: number
  outputBytesMax?: number | undefined
  onOutput?(stream: 'stdout' | 'stderr', chunk: Uint8Array): void
}>

/** How a command ended. A time-out is an end like any other, with the output so far. */
export type RunResult = Readonly<{
  exitCode: number
  signal: string | null
  timedOut: boolean
  durationMs: number
  stdout: OutputText
  stderr: OutputText
  limitsHit: readonly LimitName[]
}>

export type Runner = ReturnType<typeof createRunner>

/** The variables in which programs look for trusted certificates. */
const authorityNames = [
  'SSL_CERT_FILE',
  'CURL_CA_BUNDLE',
  'GIT_SSL_CAINFO',
  'NODE_EXTRA_CA_CERTS',
  'REQUESTS_CA_BUNDLE',
  'PIP_CERT',
] as const

/** The environment of a command before the caller's variables. An image may override the certificates, but not the proxy. */
function defaultEnv({ network }: Workspace, image: ImageDefaults): Record<string, string> {
  const env: Record<string, string> = {
    PATH: '/root/.local/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin',
    HOME: '/root',
    LANG: 'C.UTF-8',
    TERM: 'dumb',
    ...image.env,
  }
  const isProxied = network.allowedDomains.length > 0
  for (const name of authorityNames)
    if (isProxied || env[name] === undefined) env[name] = egressEndpoints.authoritiesPath
  if (!isProxied) return env
  for (const name of ['http_proxy', 'https_proxy', 'HTTP_PROXY', 'HTTPS_PROXY']) env[name] = egressEndpoints.proxyUrl
  for (const name of ['no_proxy', 'NO_PROXY']) env[name] = 'localhost,127.0.0.1,::1'
  // Node's own clients ignore proxy variables without this.
  env['NODE_USE_ENV_PROXY'] = '1'
  return env
}

export const commandEnv = (
  workspace: Workspace,
  image: ImageDefaults,
  env: Readonly<Record<string, string>> = {},
  isHidden: (name: string) => boolean = () => false,
): Record<string, string> => {
  const retained = Object.entries({ ...defaultEnv(workspace, image), ...workspace.env })
  return { ...Object.fromEntries(retained.filter(([name]) => !isHidden(name))), ...env }
}

/** Just under half of an answer, for each of its two streams. */
const JSON_BYTES_MAX = Math.floor(limits.answerBytesMax * 0.45)

export function createRunner(core: Core) {
  /** `answers` is the number of results that share one answer. */
  async function run(
    call: Pick<Call, 'signal' | 'transact'>,
    at: Workspace,
    request: RunRequest,
    answers = 1,
  ): Promise<RunResult> {
    checkEnv('env', request.env ?? {})
    const outputBytesMax = request.outputBytesMax ?? limits.execOutputBytesDefault
    const image = await core.imageDefaults(at)
    const result = await sharedWhileRunning(core, call, at, async (signal) => {
      const ended = await inWorkdir(request.workdir, image, (workdir) =>
        core.backend.exec(at.id, {
          argv: request.argv,
          workdir,
          env: commandEnv(at, image, request.env, request.isHidden),
          stdin: request.stdin,
          timeoutMs: request.timeoutMs,
          outputBytesMax,
          signal,
          ...(request.onOutput === undefined ? {} : { onOutput: request.onOutput }),
        }),
      )
      if (ended.ended === 'cancelled') throw cancelled()
      return ended
    })
    return toRunResult(result, outputBytesMax, Math.floor(JSON_BYTES_MAX / answers))
  }

  /** The raw result of the back end, for domains that parse output themselves. */
  const runRaw = async (at: Workspace, request: ExecRequest): Promise<ExecResult> => {
    const image = await core.imageDefaults(at)
    const call: Pick<Call, 'signal' | 'transact'> = {
      signal: request.signal,
      transact: (work) => core.database.write(at.tenant, work),
    }
    return await sharedWhileRunning(core, call, at, (signal) =>
      core.backend.exec(at.id, { ...request, env: commandEnv(at, image, request.env), signal }),
    )
  }

  return { run, runRaw }
}

const toRunResult = (result: ExecResult, outputBytesMax: number, jsonBytesMax: number): RunResult => ({
  exitCode: exitCodeOf(result.exitCode, result.signal),
  signal: result.signal,
  timedOut: result.ended === 'timeout',
  durationMs: Math.round(result.durationMs),
  stdout: outputText(result.stdout, outputBytesMax, jsonBytesMax),
  stderr: outputText(result.stderr, outputBytesMax, jsonBytesMax),
  limitsHit: result.limitsHit,
})

type ProgressTicker = Readonly<{ note(chunk: Uint8Array): void; stop(): void }>

/** Reports the progress of a command about once a second: the time, the bytes so far, and its last line. */
export function tickProgress(core: Core, call: Pick<Call, 'progress'>): ProgressTicker {
  const startedMs = core.clock.monotonicMs()
  let bytes = 0
  const end = createOutputEnd(LINE_BYTES)
  let toldSecs = 0
  const timer = setInterval(() => {
    const secs = Math.round((core.clock.monotonicMs() - startedMs) / 1000)
    if (secs <= toldSecs) return
    toldSecs = secs
    const line = lastLine(end.bytes())
    call.progress({ progress: secs, message: `${secs} s, ${bytes} bytes of output${line === '' ? '' : `: ${line}`}` })
  }, limits.execProgressMs)
  timer.unref()
  return {
    note(chunk) {
      bytes += chunk.length
      end.add(chunk)
    },
    stop: () => clearInterval(timer),
  }
}
const LINE_BYTES = 240

/** Retains the last bytes. */
export function createOutputEnd(bytesMax: number): Readonly<{ add(chunk: Uint8Array): void; bytes(): Uint8Array }> {
  let end: Uint8Array = new Uint8Array()
  return {
    add(chunk) {
      end = chunk.length >= bytesMax ? chunk.subarray(-bytesMax) : Buffer.concat([end, chunk]).subarray(-bytesMax)
    },
    bytes: () => end,
  }
}

/** Without control characters, which would affect the terminal. */
export const lastLine = (bytes: Uint8Array): string =>
  (decodeText(bytes).trimEnd().split('\n').at(-1) ?? '').replaceAll(/\p{Cc}/gu, ' ').slice(-160)

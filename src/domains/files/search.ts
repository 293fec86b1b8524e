import { AppError } from '../../contract/app-error.ts'
import { limits } from '../../contract/limits.ts'
import { type ExecRequest, type ExecResult, SEARCH_PROGRAM } from '../workspaces/backend.ts'
import { decodeText } from '../workspaces/output-text.ts'
import type { Workspace } from '../workspaces/ports.ts'
import { compileGlob } from './glob.ts'

export type SearchRequest = Readonly<{
  run(at: Workspace, request: ExecRequest): Promise<ExecResult>
  at: Workspace
  pattern: string
  path: string
  /** Whether the caller may see a file that was found. */
  isAllowed(path: string): boolean
  signal: AbortSignal
}>
export type Found = Readonly<{ lines: readonly string[]; truncated: boolean }>

/** Hidden and ignored files are searched too. Links are not followed, so there are no cycles. */
const always = [
  '--no-config',
  '--no-ignore',
  '--hidden',
  '--no-messages',
  '--color=never',
  '--no-follow',
  '--sort=path',
]
const RETAINED_BYTES = 4_096

/**
 * Matching lines, as `path:line:content`. The search runs inside the workspace, at the workspace's cost, with an engine
 * whose time is linear in its input; a pattern cannot choose another.
 */
export function grep(request: SearchRequest): Promise<Found> {
  const { pattern, path, isAllowed } = request
  const argv = [
    ...['--with-filename', '--no-heading', '--line-number', '--null', '--engine=default'],
    ...[`--max-columns=${limits.agentGrepLineBytesMax}`, '--max-columns-preview'],
    ...[`--regexp=${pattern}`, '--', path],
  ]
  let last = ''
  /** A path ends with a zero byte, so that no file name can look like a line. */
  return search(request, argv, (text, emit) => {
    let at = 0
    for (;;) {
      if (text.startsWith(`${last}${NO_TEXT_AFTER_ALL}`, at)) {
        const end = text.indexOf('\n', at + last.length)
        if (end < 0) return text.slice(at)
        at = end + 1
        continue
      }
      const zero = text.indexOf('\0', at)
      const end = zero < 0 ? -1 : text.indexOf('\n', zero)
      if (end < 0) return text.slice(at)
      const name = text.slice(at, zero)
      last = name
      if (isAllowed(name)) emit(`${name}:${text.slice(zero + 1, end).replace(/\r$/, '')}`)
      at = end + 1
    }
  })
}

/** The line that the search program prints for a file with matches before a zero byte. */
const NO_TEXT_AFTER_ALL = ': WARNING: stopped searching binary file after match ('

/** Files below `path` whose path from there matches. */
export function glob(request: SearchRequest): Promise<Found> {
  const { pattern, path, isAllowed } = request
  const matcher = compileGlob(pattern)
  const prefix = path === '/' ? '/' : `${path}/`
  return search(request, ['--files', '--null', '--', path], (text, emit) => {
    const names = text.split('\0')
    const rest = names.pop()!
    for (const name of names) {
      const relative = name.startsWith(prefix) ? name.slice(prefix.length) : name
      if (matcher.matches(relative) && isAllowed(name)) emit(relative)
    }
    return rest
  })
}

/** Parses the complete records of the text and returns the rest. */
type Reading = (text: string, emit: (line: string) => void) => string

async function search(request: SearchRequest, argv: readonly string[], read: Reading): Promise<Found> {
  const enough = new AbortController()
  const lines: string[] = []
  let [bytes, bytesRead, held] = [0, 0, Buffer.alloc(0) as Buffer]
  const emit = (line: string): void => {
    bytes += line.length + 1
    if (lines.length >= limits.agentMatchesMax || bytes > limits.agentMatchBytesMax) enough.abort()
    else lines.push(line)
  }
  const running = request.run(request.at, {
    argv: [SEARCH_PROGRAM, ...always, ...argv],
    env: {},
    timeoutMs: limits.agentSearchMs,
    outputBytesMax: RETAINED_BYTES,
    signal: AbortSignal.any([request.signal, enough.signal]),
    onOutput(stream, chunk) {
      if (stream !== 'stdout' || enough.signal.aborted) return
      bytesRead += chunk.length
      if (bytesRead > limits.agentSearchOutputBytesMax) enough.abort()
      const whole = Buffer.concat([held, chunk])
      // A character may be split at the end, but never before the end of a record.
      const end = Math.max(whole.lastIndexOf(0), whole.lastIndexOf(0x0a)) + 1
      held = Buffer.concat([Buffer.from(read(decodeText(whole.subarray(0, end)), emit)), whole.subarray(end)])
    },
  })
  const result = await running.catch((error: unknown) => {
    if (enough.signal.aborted && !request.signal.aborted) return undefined
    throw error instanceof AppError && error.code === 'ERR_COMMAND_FAILED' ? notSearched() : error
  })
  const truncated = result === undefined || result.ended === 'timeout' || enough.signal.aborted
  if (!truncated) requireDone(result)
  return { lines, truncated }
}

const PATTERN_REFUSED = 2

/** If files disappear during the search, the exit code is the same as for an invalid pattern, but without a message. */
function requireDone({ ended, exitCode, stderr }: ExecResult): void {
  if (ended === 'cancelled') throw new AppError('ERR_CANCELLED', 'The call was cancelled.')
  const said = decodeText(stderr.head)
  if (exitCode === PATTERN_REFUSED && said.trim() !== '') throw invalidPattern(said)
  // A signal ended it: the workspace lacks memory, or a process inside killed it.
  if (exitCode === null) throw notSearched()
}

const notSearched = (): AppError =>
  new AppError(
    'ERR_CAPABILITY_MISSING',
    'The search did not run in this workspace. Stop and start the workspace, or search with cmd.run.',
    { capability: 'search' },
  )

function invalidPattern(said: string): AppError {
  const constraint = said.includes('size limit')
    ? 'a smaller regular expression; its repetition counts make it too large'
    : 'a regular expression of the Rust syntax, without look-around and back-references'
  return new AppError('ERR_INVALID_INPUT', `'pattern' must be ${constraint}.`, {
    field: 'pattern',
    constraint,
    search_program_said: said.slice(0, 1_000).toWellFormed(),
  })
}

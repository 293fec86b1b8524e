import { AppError } from '../../contract/app-error.ts'
import type { Call } from '../../contract/call.ts'
import { limits } from '../../contract/limits.ts'
import { type Git, type GitOutput, gitFailed } from './git-command.ts'
import { networkHint } from './network-hint.ts'
import { branchName, type CloneAddress, cloneAddress } from './rules.ts'

export type CloneInput = Readonly<{
  workspace_id: string
  url: string
  path?: string | undefined
  branch?: string | undefined
  depth?: number | undefined
}>

export type CloneAnswer = Readonly<{
  success: true
  path: string
  /** Null for a repository without commits. */
  commit_sha: string | null
  url: string
  branch: string | null
  depth: number | null
}>

/**
 * `root` runs in the root directory, `repository` where the clone will be. Credentials in the address are used by this
 * command only: git substitutes them for the plain address, which is all that the workspace's files store.
 */
export async function clone(call: Call, root: Git, repository: Git, input: CloneInput): Promise<CloneAnswer> {
  const { path } = repository
  const address = cloneAddress(input.url)
  const branch = input.branch === undefined ? undefined : branchName(input.branch)
  const existed = await requireEmpty(root, path)
  // Files are there before the clone ends, and perhaps after one that failed.
  await call.fillsWorkspace?.(root.workspace.id)
  await runClone(call, root, { path, address, branch, depth: input.depth, existed }).catch((error: unknown) => {
    throw isPath(address) ? error : quoting(error)
  })
  if (address.urlWithCredentials !== undefined) {
    call.warn(
      'url: its credentials were used for this clone and are not kept in the workspace; a later push or fetch needs them from the egress proxy.',
    )
  }
  const head = await repository.run(['rev-parse', '--verify', '--quiet', 'HEAD^{commit}'])
  const current = await repository.run(['symbolic-ref', '--quiet', '--short', 'HEAD'])
  const commitId = head.exitCode === 0 ? head.stdout.toString().trim() : null
  const checkedOut = current.exitCode === 0 ? current.stdout.toString().trim() : null
  return {
    success: true,
    path,
    commit_sha: commitId,
    url: address.url,
    branch: branch ?? checkedOut,
    depth: input.depth ?? null,
  }
}

/** Whether the directory exists. An existing one must be empty. */
async function requireEmpty(root: Git, path: string): Promise<boolean> {
  const listing = await root.program(['ls', '-A', '--', path], { outputBytesMax: 1_024 })
  if (listing.exitCode === 0 && listing.stdout.length > 0) {
    throw new AppError(
      'ERR_ALREADY_EXISTS',
      'path: the directory is not empty; choose another path or empty it first',
      {
        field: 'path',
        path,
      },
    )
  }
  return listing.exitCode === 0
}

type ClonePlan = Readonly<{
  path: string
  address: CloneAddress
  branch: string | undefined
  depth: number | undefined
  existed: boolean
}>

async function runClone(call: Call, root: Git, plan: ClonePlan): Promise<void> {
  const { address, path } = plan
  const args = [
    'clone',
    '--progress',
    ...(plan.branch === undefined ? [] : [`--branch=${plan.branch}`]),
    ...(plan.depth === undefined ? [] : [`--depth=${plan.depth}`]),
    '--',
    address.url,
    path,
  ]
  let output: GitOutput
  try {
    output = await root.run(args, {
      // By its path alone: an address of another machine must not resolve to a file here.
      config: ['core.hooksPath=/dev/null', `protocol.file.allow=${isPath(address) ? 'user' : 'never'}`],
      env: replaceAddress(address),
      timeoutMs: limits.gitCloneTimeoutMs,
      onStderr: reportProgress(call),
    })
  } catch (error) {
    // A clone that is killed cannot clean up. Everything in the directory came from it.
    const removal = plan.existed ? ['find', path, '-mindepth', '1', '-delete'] : ['rm', '-rf', '--', path]
    await root.program(removal, { uninterrupted: true }).catch(() => undefined)
    throw error
  }
  if (output.exitCode !== 0) throw gitFailed('clone', output, networkHint(output.stderr))
}

/** A failure in which git repeats what the other machine said. */
function quoting(error: unknown): unknown {
  if (!(error instanceof AppError)) return error
  const { code, message, details, cause } = error
  const { git_output: said } = details
  const isQuoting = typeof said === 'string' && !WITHOUT_WORDS.test(said)
  return isQuoting ? new AppError(code, message, details, { cause, quotes: ['git_output'] }) : error
}

/** Only the address, and git's own words in the C locale. */
const WITHOUT_WORDS = new RegExp(
  String.raw`^(?:Cloning into '[^'\n]*'\.\.\.\n)?fatal: (?:${[
    String.raw`unable to access '[^'\n]*': (?:Could not resolve|Failed to connect|Couldn't connect|CONNECT tunnel failed)[^\n]*`,
    String.raw`unable to access '[^'\n]*': The requested URL returned error: \d+`,
    String.raw`could not read (?:Username|Password) for '[^'\n]*': terminal prompts disabled`,
    String.raw`repository '[^'\n]*' not found`,
  ].join('|')})$`,
)

const isPath = ({ url }: CloneAddress): boolean => url.startsWith('/')

const replaceAddress = ({ url, urlWithCredentials }: CloneAddress): Record<string, string> =>
  urlWithCredentials === undefined
    ? {}
    : { GIT_CONFIG_COUNT: '1', GIT_CONFIG_KEY_0: `url.${urlWithCredentials}.insteadOf`, GIT_CONFIG_VALUE_0: url }

const phases: Readonly<Record<string, string>> = {
  'Receiving objects': 'receiving objects',
  'Resolving deltas': 'resolving deltas',
  'Updating files': 'checking files out',
}

function reportProgress(call: Call): (chunk: Uint8Array) => void {
  let last = ''
  return (chunk) => {
    const text = Buffer.from(chunk).toString('latin1')
    const [, phase = '', percent = ''] = [...text.matchAll(/([A-Z][a-z]+ [a-z]+): +(\d{1,3})%/g)].at(-1) ?? []
    const message = phases[phase]
    if (message === undefined || last === phase + percent) return
    last = phase + percent
    call.progress({ progress: Number(percent), total: 100, message })
  }
}

import { AppError } from '../../contract/app-error.ts'
import type { Call } from '../../contract/call.ts'
import { limits } from '../../contract/limits.ts'
import { createKeyedMutex } from '../../kernel/keyed-mutex.ts'
import { cloneAddress } from '../git/rules.ts'
import { shellArgv } from '../workspaces/exec.ts'
import type { Snapshot, Workspace } from '../workspaces/ports.ts'
import { checkEnv, checkName, identityOf, quoted } from '../workspaces/rules.ts'
import { lastLine, type RunResult } from '../workspaces/run.ts'
import { createReporter, type Reporter, uninterrupted, viewOf } from './call-view.ts'
import type { SwarmDeps } from './ports.ts'
import { GOLDEN, WORKSPACE_FOLDER } from './rules.ts'

type PrepareInput = Readonly<{
  name: string
  base_image?: string | undefined
  git_url?: string | undefined
  setup_commands?: readonly string[] | undefined
  env?: Readonly<Record<string, string>> | undefined
  timeout_secs?: number | undefined
  allow_internet?: boolean | undefined
  allowed_domains?: readonly string[] | undefined
}>

type CommandOutcome = Readonly<{ command: string; exit_code: number; duration_ms: number }>
type Repository = Readonly<{ url: string; branch: string | null; commit_sha: string | null }>
type Prepared = Readonly<{
  workspace: Workspace
  snapshot: Snapshot
  reused: boolean
  repository: Repository | null
  commands: readonly CommandOutcome[]
  /** Whether this call prepared it. */
  isNew: boolean
}>

/**
 * Prepares a workspace to fork from: a repository, the results of the setup commands, and a snapshot.
 *
 * 1. The name identifies it: a prepared workspace is returned at once, and of two concurrent calls only one works.
 * 2. A workspace that this call created is removed if the call fails, is cancelled or dies with its server; an existing one
 *    stays as the failed step left it.
 * 3. A new workspace may reach the internet during preparation if it has something to clone; afterwards it has the default
 *    policy of new workspaces. An existing workspace keeps its policy. `allow_internet` and `allowed_domains` override both,
 *    permanently.
 */
export function createPrepare(deps: SwarmDeps) {
  const { workspaces } = deps
  const locks = createKeyedMutex()

  async function prepare(call: Call, input: PrepareInput) {
    const name = checkName('name', input.name)
    checkEnv('env', input.env ?? {})
    checkUrl(input.git_url)
    const ready = await findReady(call, name)
    if (ready !== undefined) return answer(call, input, ready)
    const work = async () => {
      const prepared = await findReady(call, name)
      return answer(call, input, prepared ?? (await prepareNow(call, input)))
    }
    return await locks.withLock(`${call.principal.tenant} ${name}`, work, call.signal)
  }

  /** The workspace of that name, if the caller owns it. A name of another owner is refused. */
  async function findOwn(call: Call, name: string): Promise<Workspace | undefined> {
    try {
      const found = await workspaces.resolve(call, name)
      if (found.owner !== identityOf(call.principal)) throw nameTaken(name)
      return found
    } catch (error) {
      if (error instanceof AppError && error.code === 'ERR_WORKSPACE_NOT_FOUND') return undefined
      throw error
    }
  }

  async function findReady(call: Call, name: string): Promise<Prepared | undefined> {
    const workspace = await findOwn(call, name)
    const snapshot = workspace && (await workspaces.findSnapshot(call, workspace, GOLDEN))
    // A workspace that is still being prepared is not ready, whatever it holds.
    if (workspace === undefined || workspace.boundTo !== null || snapshot?.state !== 'ready') return undefined
    return { workspace, snapshot, reused: true, repository: null, commands: [], isNew: false }
  }

  async function prepareNow(call: Call, input: PrepareInput): Promise<Prepared> {
    const existing = await findOwn(call, input.name)
    if (existing !== undefined && existing.boundTo !== null) throw inUse(existing)
    const setup = input.setup_commands ?? []
    let present = `preparing ${input.name}`
    const report = createReporter(call, setup.length + (input.git_url === undefined ? 2 : 3), () => present)
    const tell = (text: string): void => {
      present = text
    }
    try {
      const workspace = existing === undefined ? await makeFresh(call, input) : await makeUsable(call, input, existing)
      report.step(`${workspace.name} is running`)
      try {
        return { ...(await furnish(call, input, workspace, { report, tell })), reused: existing !== undefined }
      } catch (error) {
        if (existing !== undefined) throw error
        await removeFailed(call, workspace)
        throw withDestroyed(error)
      }
    } finally {
      report.stop()
    }
  }

  async function makeFresh(call: Call, input: PrepareInput): Promise<Workspace> {
    const { name, base_image, allow_internet, allowed_domains } = input
    try {
      return await workspaces.makeWorkspace(call, { name, base_image, allow_internet, allowed_domains, bound: true })
    } catch (error) {
      throw error instanceof AppError && error.code === 'ERR_ALREADY_EXISTS' ? nameTaken(name) : error
    }
  }

  async function makeUsable(call: Call, input: PrepareInput, existing: Workspace): Promise<Workspace> {
    const { allow_internet, allowed_domains } = input
    if (allow_internet !== undefined || allowed_domains !== undefined) {
      await workspaces.networkPolicy(call, { workspace_id: existing.id, allow_internet, allowed_domains })
    }
    await workspaces.startWorkspace(call, existing)
    return await workspaces.resolve(call, existing.id)
  }

  type Telling = Readonly<{ report: Reporter; tell(present: string): void }>

  async function furnish(call: Call, input: PrepareInput, at: Workspace, { report, tell }: Telling) {
    await workspaces.openFiles(at).makeDirectory(WORKSPACE_FOLDER)
    const opensInternet =
      at.boundTo !== null &&
      input.git_url !== undefined &&
      input.allow_internet === undefined &&
      input.allowed_domains === undefined &&
      !at.network.allowInternet
    if (opensInternet) await workspaces.networkPolicy(call, { workspace_id: at.id, allow_internet: true })
    const repository = await cloneInto(call, input, at, report)
    const commands: CommandOutcome[] = []
    for (const [index, command] of (input.setup_commands ?? []).entries()) {
      commands.push(await setUp(call, input, at, { index, command, tell }))
      report.step(`command ${index + 1} is done`)
    }
    if (opensInternet) await workspaces.networkPolicy(call, { workspace_id: at.id, allow_internet: false })
    const snapshot = await workspaces.takeSnapshot(call, at, GOLDEN)
    const workspace = await workspaces.keepWorkspace(call, at)
    report.step(`the snapshot ${GOLDEN} is taken`)
    return { workspace, snapshot, repository, commands, isNew: true }
  }

  /** An existing clone of the same URL, from a call that failed later, is reused. */
  async function cloneInto(
    call: Call,
    { git_url: url }: PrepareInput,
    { id }: Workspace,
    report: Reporter,
  ): Promise<Repository | null> {
    if (url === undefined) return null
    const quiet = viewOf(call, { progress: ({ message }) => report.say(message ?? 'cloning') })
    try {
      const cloned = await deps.git.clone(quiet, { workspace_id: id, url, path: WORKSPACE_FOLDER })
      report.step('the repository is cloned')
      return { url: cloned.url, branch: cloned.branch, commit_sha: cloned.commit_sha }
    } catch (error) {
      if (!(error instanceof AppError) || error.code !== 'ERR_ALREADY_EXISTS') throw error
      const present = await presentClone(call, id, cloneAddress(url).url)
      if (present === undefined) throw folderInUse(error)
      report.step('the repository was cloned before')
      return present
    }
  }

  async function presentClone(call: Call, id: string, url: string): Promise<Repository | undefined> {
    const workspace = await workspaces.resolve(call, id)
    const argv = ['git', '-C', WORKSPACE_FOLDER, '-c', 'safe.directory=*', 'config', '--get', 'remote.origin.url']
    const found = await workspaces.run(call, workspace, { argv, timeoutMs: limits.gitCommandTimeoutMs })
    if (found.exitCode !== 0 || found.stdout.text.trim() !== url) return undefined
    const { branch, commit_sha } = await deps.git.status(call, { workspace_id: id, path: WORKSPACE_FOLDER })
    return { url, branch, commit_sha }
  }

  type Step = Readonly<{ index: number; command: string; tell(present: string): void }>

  async function setUp(call: Call, input: PrepareInput, at: Workspace, { index, command, tell }: Step) {
    const count = input.setup_commands?.length ?? 0
    const startedMs = deps.clock.monotonicMs()
    const note = (chunk?: Uint8Array): void => {
      const secs = Math.round((deps.clock.monotonicMs() - startedMs) / 1000)
      const line = chunk === undefined ? '' : lastLine(chunk.subarray(-LINE_BYTES))
      tell(`command ${index + 1} of ${count}, ${secs} s${line === '' ? '' : `: ${line}`}`)
    }
    note()
    const result = await workspaces.run(call, at, {
      argv: shellArgv(command),
      workdir: WORKSPACE_FOLDER,
      env: input.env,
      timeoutMs: (input.timeout_secs ?? limits.prepareTimeoutDefaultSecs) * 1000,
      onOutput: (_stream, chunk) => note(chunk),
    })
    if (result.exitCode !== 0 || result.timedOut) throw setupFailed(index, command, result)
    return { command, exit_code: result.exitCode, duration_ms: result.durationMs }
  }

  /** A workspace that cannot be removed here is bound to this process, and removed at the next start. */
  async function removeFailed(call: Call, workspace: Workspace): Promise<void> {
    try {
      await workspaces.destroyWorkspace(uninterrupted(call), workspace)
    } catch (error) {
      deps.logger.warn('workspace could not be removed after its preparation failed', {
        id: workspace.id,
        cause: String(error),
      })
    }
  }

  return { prepare }
}

const LINE_BYTES = 240

/** Refused before anything is created; git clone would report it under another name. */
function checkUrl(url: string | undefined): void {
  if (url === undefined) return
  try {
    cloneAddress(url)
  } catch (error) {
    if (!(error instanceof AppError)) throw error
    const rule = error.message.replace(/^url: /, '')
    throw new AppError(error.code, `git_url: ${rule}`, { ...error.details, field: 'git_url' })
  }
}

const nameTaken = (name: string): AppError =>
  new AppError('ERR_ALREADY_EXISTS', `name: ${quoted(name)} is a workspace of another owner; choose another name`, {
    field: 'name',
    name,
  })

/** Within this process a mutex prevents this, so it is a call of another server, or the worker of a swarm. */
const inUse = ({ id, name }: Workspace): AppError =>
  new AppError('ERR_BUSY', `name: another call is working with ${quoted(name)}; call again when it is done`, {
    field: 'name',
    workspace_id: id,
    retry_after_ms: 1_000,
  })

const folderInUse = (error: AppError): AppError =>
  new AppError(
    error.code,
    `git_url: ${WORKSPACE_FOLDER} of the existing workspace contains something else; empty it, or choose another name`,
    { field: 'git_url', path: WORKSPACE_FOLDER },
  )

const TAIL_CHARS = 4_000

function setupFailed(index: number, command: string, result: RunResult): AppError {
  const how = result.timedOut ? 'did not finish in time' : `exited with code ${result.exitCode}`
  return new AppError(
    'ERR_COMMAND_FAILED',
    `setup_commands.${index}: the command ${how}; see stdout_tail and stderr_tail for the end of its output`,
    {
      field: `setup_commands.${index}`,
      command: command.slice(0, 1_000).toWellFormed(),
      exit_code: result.exitCode,
      signal: result.signal,
      timed_out: result.timedOut,
      duration_ms: result.durationMs,
      stdout_tail: result.stdout.text.slice(-TAIL_CHARS).toWellFormed(),
      stderr_tail: result.stderr.text.slice(-TAIL_CHARS).toWellFormed(),
    },
  )
}

const withDestroyed = (error: unknown): unknown =>
  error instanceof AppError && error.code !== 'ERR_CANCELLED'
    ? new AppError(error.code, error.message, { ...error.details, workspace_destroyed: true }, { cause: error })
    : error

function answer(call: Call, input: PrepareInput, prepared: Prepared) {
  const { workspace, snapshot, reused, repository, commands, isNew } = prepared
  if (reused && input.base_image !== undefined && input.base_image !== workspace.image) {
    call.warn(`base_image: ignored, because the workspace already exists with the image ${quoted(workspace.image)}.`)
  }
  if (isNew) {
    call.record({
      kind: 'workspace_prepared',
      body: {
        workspace_id: workspace.id,
        name: workspace.name,
        owner: workspace.owner,
        image: workspace.image,
        snapshot_id: snapshot.id,
        repository: repository === null ? null : { ...repository },
      },
    })
  }
  return {
    workspace_id: workspace.id,
    name: workspace.name,
    state: workspace.state,
    ip: workspace.ip,
    base_image: workspace.image,
    snapshot_name: GOLDEN,
    snapshot_id: snapshot.id,
    reused_existing: reused,
    repository,
    commands: [...commands],
  }
}

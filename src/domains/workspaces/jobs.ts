import { AppError } from '../../contract/app-error.ts'
import type { Call } from '../../contract/call.ts'
import { limits } from '../../contract/limits.ts'
import { isoTime } from '../../kernel/clock.ts'
import type { JobCursor, JobReport, JobSummary } from './backend.ts'
import { type Core, sharedWhileRunning } from './core.ts'
import { shellArgv } from './exec.ts'
import { wholeCharacters } from './file-rules.ts'
import { inWorkdir } from './image-defaults.ts'
import { decodeText } from './output-text.ts'
import type { Workspace } from './ports.ts'
import { checkEnv, exitCodeOf, invalid } from './rules.ts'
import { commandEnv } from './run.ts'

const jobActions = ['start', 'poll', 'kill', 'remove', 'list'] as const
type JobInput = Readonly<{
  workspace_id: string
  action: (typeof jobActions)[number]
  command?: string | undefined
  workdir?: string | undefined
  env?: Readonly<Record<string, string>> | undefined
  timeout_secs?: number | undefined
  job_id?: number | undefined
  signal?: number | undefined
  cursor?: string | undefined
  max_output_bytes?: number | undefined
}>

const CURSOR = /^(\d{1,15})\.(\d{1,15})$/
const START: JobCursor = { stdout: 0, stderr: 0 }
const KILL = 9
/** Two streams share one answer, and JSON may encode one byte as six. */
const POLL_BYTES_MAX = Math.floor(limits.answerBytesMax / 13)

function need<T>(action: string, field: string, value: T | undefined): T {
  if (value === undefined) throw invalid(field, `the action ${action} needs it`)
  return value
}

/** Jobs live in the workspace: they outlive the server, and a finished job stays until it is removed. */
export function createJobs(core: Core, resolve: (call: Call, reference: string) => Promise<Workspace>) {
  const locks = core.backend.jobs

  async function background(call: Call, input: JobInput) {
    const workspace = await resolve(call, input.workspace_id)
    const at = { action: input.action, workspace_id: workspace.id }
    switch (input.action) {
      case 'start':
        return { ...at, ...(await start(call, workspace, input)) }
      case 'poll':
        return { ...at, ...(await poll(workspace, input)) }
      case 'kill':
        return { ...at, ...(await kill(call, workspace, input)) }
      case 'remove': {
        const jobId = need('remove', 'job_id', input.job_id)
        if (!(await locks.remove(workspace.id, jobId))) throw noSuchJob(workspace, jobId)
        return { ...at, job_id: jobId, status: 'removed' as const }
      }
      case 'list':
        return { ...at, jobs: (await locks.list(workspace.id)).map(summaryOf) }
    }
  }

  async function start(call: Call, workspace: Workspace, input: JobInput) {
    const command = need('start', 'command', input.command)
    checkEnv('env', input.env ?? {})
    const image = await core.imageDefaults(workspace)
    const begin = (workdir: string) =>
      locks.start(workspace.id, {
        argv: shellArgv(command),
        workdir,
        env: commandEnv(workspace, image, input.env),
        timeoutMs: (input.timeout_secs ?? 0) * 1000,
        title: titleOf(command),
      })
    const { jobId } = await sharedWhileRunning(core, call, workspace, () => inWorkdir(input.workdir, image, begin))
    call.record({ kind: 'workspace_job_started', body: { workspace_id: workspace.id, job_id: jobId } })
    return { job_id: jobId, status: 'started' as const }
  }

  async function poll(workspace: Workspace, input: JobInput) {
    const jobId = need('poll', 'job_id', input.job_id)
    const from = cursorFrom(input.cursor)
    const bytesMax = Math.min(input.max_output_bytes ?? limits.execDisplayedBytesDefault, POLL_BYTES_MAX)
    const report = await locks.poll(workspace.id, jobId, from, bytesMax)
    if (report === undefined) throw noSuchJob(workspace, jobId)
    const stdout = increment(report, 'stdout', bytesMax)
    const stderr = increment(report, 'stderr', bytesMax)
    return {
      ...summaryOf(report),
      stdout: stdout.text,
      stderr: stderr.text,
      cursor: `${stdout.next}.${stderr.next}`,
      more: stdout.more || stderr.more,
      skipped_stdout_bytes: report.skipped.stdout,
      skipped_stderr_bytes: report.skipped.stderr,
    }
  }

  async function kill(call: Call, workspace: Workspace, input: JobInput) {
    const jobId = need('kill', 'job_id', input.job_id)
    const signal = input.signal ?? KILL
    const job = (await locks.list(workspace.id)).find((one) => one.jobId === jobId)
    if (job?.running === false) return { ...summaryOf(job), signal, status: 'ended' as const }
    if (!(await locks.kill(workspace.id, jobId, signal))) throw noSuchJob(workspace, jobId)
    call.record({ kind: 'workspace_job_killed', body: { workspace_id: workspace.id, job_id: jobId, signal } })
    return { job_id: jobId, signal, status: 'killed' as const }
  }

  return { background }
}

/** An incomplete character is left for the next poll. */
function increment(report: JobReport, stream: 'stdout' | 'stderr', bytesMax: number) {
  const bytes = report[stream]
  const isFull = bytes.length >= bytesMax
  const text = wholeCharacters(bytes, { startsInside: false, endsInside: report.running || isFull })
  return { text: decodeText(text), next: report.next[stream] - (bytes.length - text.length), more: isFull }
}

function cursorFrom(text: string | undefined): JobCursor {
  if (text === undefined) return START
  const found = CURSOR.exec(text)
  if (found === null)
    throw invalid('cursor', 'use the cursor of an earlier poll, or leave it out to begin at the start')
  return { stdout: Number(found[1]), stderr: Number(found[2]) }
}

/** A command shortened to a title. */
export const titleOf = (command: string): string =>
  command.length <= TITLE_CHARS_MAX ? command : `${command.slice(0, TITLE_CHARS_MAX - 1).toWellFormed()}…`
const TITLE_CHARS_MAX = 200

/** The end of a job as its owner sees it; null for what is not known yet. */
export const summaryOf = (job: JobSummary) => ({
  job_id: job.jobId,
  command: job.title ?? null,
  running: job.running,
  exit_code: job.running ? null : exitCodeOf(job.exitCode, job.signal),
  signal_name: job.signal,
  timed_out: job.timedOut,
  started_at: isoTime(job.startedAtMs),
  ended_at: job.endedAtMs === null ? null : isoTime(job.endedAtMs),
})

const noSuchJob = ({ id, name }: Workspace, jobId: number): AppError =>
  new AppError(
    'ERR_JOB_NOT_FOUND',
    `The workspace '${name}' has no job ${jobId}; exec_background with the action list shows them`,
    { workspace_id: id, job_id: jobId },
  )

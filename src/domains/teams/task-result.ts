import { limits } from '../../contract/limits.ts'
import type { JobControl, JobSummary, RetainedOutput } from '../workspaces/backend.ts'
import { outputText } from '../workspaces/output-text.ts'
import { exitCodeOf } from '../workspaces/rules.ts'
import type { TaskAssignment, TaskResult } from './ports.ts'

/** For a command that was not run, or whose end is unknown. */
const NOT_RUN = -1
const KILLED = 137
const HALF = limits.teamTaskOutputBytes / 2
const END: number = Number.MAX_SAFE_INTEGER

type Of = Readonly<{ assignment: TaskAssignment; messageId: string }>

/** The end of a job, with the beginning and the end of its output. Undefined if the job is unknown. */
export async function resultOfJob(
  jobs: JobControl,
  workspaceId: string,
  job: JobSummary,
  { assignment, messageId }: Of,
): Promise<TaskResult | undefined> {
  const output = await readOutput(jobs, workspaceId, job.jobId)
  if (output === undefined) return undefined
  const exit_code = exitCodeOf(job.exitCode, job.signal)
  const warning = job.timedOut ? `[ended after ${assignment.timeout_secs} s, its timeout_secs]` : undefined
  return {
    task_id: assignment.task_id,
    success: exit_code === 0 && !job.timedOut,
    exit_code,
    stdout: displayed(output.stdout),
    stderr: withWarning(displayed(output.stderr), warning),
    elapsed_secs: Math.max(0, Math.floor(((job.endedAtMs ?? job.startedAtMs) - job.startedAtMs) / 1000)),
    source_message_id: messageId,
  }
}

/** For a command that could not be run; `reason` is a sentence. */
export const resultOfRefusal = (of: Of, reason: string): TaskResult => withoutOutput(of, NOT_RUN, reason)

/** For a command that was ended with its workspace. */
export const resultOfStop = (of: Of): TaskResult =>
  withoutOutput(of, KILLED, 'The workspace was stopped while the command ran; its output is lost.')

const withoutOutput = ({ assignment, messageId }: Of, exit_code: number, reason: string): TaskResult => ({
  task_id: assignment.task_id,
  success: false,
  exit_code,
  stdout: '',
  stderr: withWarning('', `[${reason}]`),
  elapsed_secs: 0,
  source_message_id: messageId,
})

const withWarning = (text: string, warning: string | undefined): string => {
  if (warning === undefined) return text
  return text === '' || text.endsWith('\n') ? `${text}${warning}\n` : `${text}\n${warning}\n`
}

const displayed = (retained: RetainedOutput): string =>
  outputText(retained, limits.teamTaskOutputBytes, limits.teamTaskOutputJsonBytes).text

/** Head and tail of both streams: a poll beyond the end reports where the end is. */
async function readOutput(jobs: JobControl, workspaceId: string, jobId: number) {
  const end = await jobs.poll(workspaceId, jobId, { stdout: END, stderr: END }, 1)
  if (end === undefined) return undefined
  const { stdout, stderr } = end.next
  const [head, tail] = await Promise.all([
    jobs.poll(workspaceId, jobId, { stdout: 0, stderr: 0 }, limits.teamTaskOutputBytes),
    jobs.poll(workspaceId, jobId, { stdout: Math.max(0, stdout - HALF), stderr: Math.max(0, stderr - HALF) }, HALF),
  ])
  if (head === undefined || tail === undefined) return undefined
  const retained = (stream: 'stdout' | 'stderr', totalBytes: number): RetainedOutput => {
    if (totalBytes <= limits.teamTaskOutputBytes) {
      return { head: head[stream], tail: new Uint8Array(), totalBytes, omittedBytes: 0 }
    }
    // If the output is very long, its beginning is not retained; the first retained byte is then from its middle.
    const front = head.skipped[stream] > 0 ? new Uint8Array() : head[stream].subarray(0, HALF)
    const back = tail[stream]
    return { head: front, tail: back, totalBytes, omittedBytes: totalBytes - front.length - back.length }
  }
  return { stdout: retained('stdout', stdout), stderr: retained('stderr', stderr) }
}

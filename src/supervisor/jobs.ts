import { mkdir, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { AppError } from '../contract/app-error.ts'
import type { JobCursor, JobRequest, JobSummary } from '../domains/workspaces/backend.ts'
import type { Clock } from '../kernel/clock.ts'
import { createSingleFlight } from '../kernel/single-flight.ts'
import { createJobLog, type JobLog } from './job-log.ts'
import type { Command, RunningCommand } from './run-in-workspace.ts'

const JOBS_MAX = 1_000
/** Across all jobs of a workspace. Job output is stored outside the workspace's disk quota. */
const OUTPUT_BYTES_MAX = 64 * 1024 * 1024
const SIGKILL = 9

type Job = {
  summary: JobSummary
  stdout: JobLog
  stderr: JobLog
  running: RunningCommand | undefined
}
type JobPage = Readonly<{
  summary: JobSummary
  stdout: Buffer
  stderr: Buffer
  next: JobCursor
  skipped: JobCursor
}>
/** The background jobs of one workspace, with their output on disk. Finished jobs stay until they are removed. */
export type Jobs = Readonly<{
  start(request: JobRequest): Promise<number>
  poll(jobId: number, from: JobCursor, bytesMax: number): Promise<JobPage | undefined>
  kill(jobId: number, signal: number): boolean
  remove(jobId: number): Promise<boolean>
  list(): readonly JobSummary[]
  isRunning(): boolean
}>

export async function openJobs(deps: {
  directory: string
  run(command: Command): Promise<RunningCommand>
  clock: Clock
}): Promise<Jobs> {
  const { directory, clock } = deps
  await mkdir(directory, { recursive: true })
  const jobs = await loadJobs(directory, clock)
  const starts = createSingleFlight<number>()
  let nextId = Math.max(0, ...jobs.keys()) + 1
  let retainedBytes = [...jobs.values()].reduce((sum, job) => sum + outputBytes(job), 0)

  function append(log: JobLog, chunk: Buffer): void {
    retainedBytes -= log.retainedBytes()
    log.append(chunk)
    retainedBytes += log.retainedBytes()
    while (retainedBytes > OUTPUT_BYTES_MAX) {
      const loser = chooseLoser(jobs.values())
      if (loser === undefined) return
      retainedBytes -= loser.retainedBytes()
      loser.dropOldest()
      retainedBytes += loser.retainedBytes()
    }
  }

  async function start(request: JobRequest): Promise<number> {
    if (jobs.size >= JOBS_MAX) {
      throw new AppError(
        'ERR_QUOTA_EXCEEDED',
        `The workspace already has ${JOBS_MAX} background jobs, the maximum. Remove finished ones with exec_background, action remove.`,
        {
          limit: JOBS_MAX,
        },
      )
    }
    const jobId = nextId++
    const folder = join(directory, String(jobId))
    await mkdir(folder)
    const job: Job = {
      summary: {
        jobId,
        key: request.key ?? null,
        title: request.title ?? null,
        running: true,
        exitCode: null,
        signal: null,
        timedOut: false,
        startedAtMs: clock.nowMs(),
        endedAtMs: null,
      },
      stdout: createJobLog(join(folder, 'stdout')),
      stderr: createJobLog(join(folder, 'stderr')),
      running: undefined,
    }
    jobs.set(jobId, job)
    try {
      await saveSummary(folder, job.summary)
      job.running = await deps.run({
        argv: request.argv,
        workdir: request.workdir ?? '/',
        env: request.env,
        onOutput: (stream, chunk) => append(job[stream], chunk),
      })
    } catch (error) {
      jobs.delete(jobId)
      await rm(folder, { recursive: true, force: true })
      throw error
    }
    void finish(job, folder, request.timeoutMs)
    return jobId
  }

  async function finish(job: Job, folder: string, timeoutMs: number): Promise<void> {
    let timedOut = false
    const timer =
      timeoutMs > 0
        ? setTimeout(() => {
            timedOut = true
            job.running?.signal(SIGKILL)
          }, timeoutMs)
        : undefined
    const { exitCode, signal } = await job.running!.ended
    clearTimeout(timer)
    job.running = undefined
    job.summary = { ...job.summary, exitCode, signal, running: false, timedOut, endedAtMs: clock.nowMs() }
    // The workspace may have been removed while the job ran.
    await saveSummary(folder, job.summary).catch(() => {})
  }

  return {
    start(request) {
      const { key } = request
      if (key === undefined) return start(request)
      const known = [...jobs.values()].find((job) => job.summary.key === key)
      if (known !== undefined) return Promise.resolve(known.summary.jobId)
      return starts.run(key, () => start(request))
    },
    async poll(jobId, from, bytesMax) {
      const job = jobs.get(jobId)
      if (job === undefined) return undefined
      const summary = job.summary
      const [stdout, stderr] = await Promise.all([
        job.stdout.read(from.stdout, bytesMax),
        job.stderr.read(from.stderr, bytesMax),
      ])
      return {
        summary,
        stdout: stdout.bytes,
        stderr: stderr.bytes,
        next: { stdout: stdout.next, stderr: stderr.next },
        skipped: { stdout: stdout.skipped, stderr: stderr.skipped },
      }
    },
    kill(jobId, signal) {
      const job = jobs.get(jobId)
      job?.running?.signal(signal)
      return job !== undefined
    },
    async remove(jobId) {
      const job = jobs.get(jobId)
      if (job === undefined) return false
      if (job.summary.running) {
        throw new AppError('ERR_JOB_RUNNING', `Job ${jobId} is still running. Kill it, or wait until it has ended.`, {
          jobId,
        })
      }
      jobs.delete(jobId)
      retainedBytes -= outputBytes(job)
      await rm(join(directory, String(jobId)), { recursive: true, force: true })
      return true
    },
    list: () => [...jobs.values()].map((job) => job.summary),
    isRunning: () => [...jobs.values()].some((job) => job.summary.running),
  }
}

const outputBytes = ({ stdout, stderr }: Job): number => stdout.retainedBytes() + stderr.retainedBytes()

/**
 * Chooses the log whose oldest output is dropped: that of the job that finished first, or, if only running jobs are left, the
 * largest.
 */
function chooseLoser(jobs: Iterable<Job>): JobLog | undefined {
  const candidates = [...jobs].filter((job) => outputBytes(job) > 0)
  const endMs = (job: Job): number => job.summary.endedAtMs ?? Number.POSITIVE_INFINITY
  const [loser] = candidates.sort(
    (left, right) =>
      Number(left.summary.running) - Number(right.summary.running) ||
      (left.summary.running ? outputBytes(right) - outputBytes(left) : endMs(left) - endMs(right)),
  )
  if (loser === undefined) return undefined
  return loser.stdout.retainedBytes() >= loser.stderr.retainedBytes() ? loser.stdout : loser.stderr
}

async function saveSummary(folder: string, summary: JobSummary): Promise<void> {
  await writeFile(join(folder, 'job.json.new'), JSON.stringify(summary))
  await rename(join(folder, 'job.json.new'), join(folder, 'job.json'))
}

/** Undefined if the job never started, or if a power failure lost its record. */
async function readSummary(folder: string): Promise<JobSummary | undefined> {
  try {
    return JSON.parse(await readFile(join(folder, 'job.json'), 'utf8')) as JobSummary
  } catch {
    return undefined
  }
}

/** Loads the jobs of an earlier run of the workspace. Jobs that were running then count as ended. */
async function loadJobs(directory: string, clock: Clock): Promise<Map<number, Job>> {
  const jobs = new Map<number, Job>()
  for (const name of (await readdir(directory)).sort((a, b) => Number(a) - Number(b))) {
    const folder = join(directory, name)
    const saved = await readSummary(folder)
    if (saved === undefined) {
      await rm(folder, { recursive: true, force: true })
      continue
    }
    const summary = saved.running ? { ...saved, running: false, signal: 'SIGKILL', endedAtMs: clock.nowMs() } : saved
    // If the disk is full, the next start records the end.
    if (saved.running) await saveSummary(folder, summary).catch(() => {})
    jobs.set(saved.jobId, {
      summary,
      stdout: createJobLog(join(folder, 'stdout')),
      stderr: createJobLog(join(folder, 'stderr')),
      running: undefined,
    })
  }
  return jobs
}

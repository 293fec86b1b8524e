import { isDeepStrictEqual } from 'node:util'
import { AppError } from '../contract/app-error.ts'
import type { Json } from '../kernel/canonical-json.ts'
import { plainJson } from '../kernel/plain-json.ts'
import {
  type EndStatus,
  type Finalizer,
  isEnded,
  type NewEvent,
  type Program,
  type ProgramEnd,
  type Run,
  type RunError,
  type RunEvent,
  type Steps,
} from './ports.ts'
import { toRunError } from './run-error.ts'

/** Where a replay and its record differ. `step`: taken but not recorded. `unused`: recorded but not taken. */
type Difference = Readonly<{
  kind: 'step' | 'note' | 'unused' | 'outcome'
  step: string | null
  sequence: number | null
  recorded: Json
  replayed: Json
}>

export type Replay = Readonly<{
  /** Steps that were answered from the record. */
  steps: number
  difference: Difference | null
  /** Absent if the record ends before the program does. */
  end?: ProgramEnd
}>

/** Ends the program where the record has no result. */
class RecordEnded extends Error {
  override name = 'RecordEnded'
}

const concurrentSteps = /~(?:began|child|waiting)$/
const isStep = ({ key }: RunEvent): boolean => key !== null && !concurrentSteps.test(key) && !key.startsWith('~note-')

/**
 * Runs a program against a record: every step is answered from it, nothing is done and nothing is written. The input of `run` may
 * differ from the recorded one; the result shows what the program then decides differently.
 */
export async function replay(
  { program, finalizer }: Readonly<{ program: Program; finalizer: Finalizer | undefined }>,
  run: Run,
  events: readonly RunEvent[],
): Promise<Replay> {
  const record = createRecord(run, events)
  let end: ProgramEnd | undefined
  try {
    end = await program(run, record.steps)
  } catch (error) {
    if (!(error instanceof RecordEnded)) {
      if (!(error instanceof AppError)) throw error
      end = { status: 'failed', output: null, error: toRunError(error) }
    }
  }
  if (isEnded(run) && record.difference() === null) await tidyUp(finalizer, run, record.steps)
  const outcome = end === undefined || record.difference() !== null ? null : outcomeDifference(run, end)
  const difference = record.difference() ?? record.unused() ?? outcome
  return { steps: record.answered(), difference, ...(end !== undefined && { end }) }
}

async function tidyUp(finalizer: Finalizer | undefined, run: Run, steps: Steps): Promise<void> {
  try {
    await finalizer?.(run, steps, run.status as EndStatus)
  } catch (error) {
    if (!(error instanceof RecordEnded) && !(error instanceof AppError)) throw error
  }
}

function outcomeDifference(run: Run, end: ProgramEnd): Difference | null {
  if (run.status !== 'completed' && run.status !== 'failed') return null
  const recorded = plainJson({ status: run.status, output: run.output, error: run.error })
  const replayed = plainJson({ status: end.status, output: end.output, error: end.error ?? null })
  if (isDeepStrictEqual(recorded, replayed)) return null
  return { kind: 'outcome', step: null, sequence: run.lastSequence, recorded, replayed }
}

function createRecord(run: Run, events: readonly RunEvent[]) {
  const byKey = new Map(events.flatMap((event) => (event.key === null ? [] : [[event.key, event] as const])))
  const replayedKeys = new Set<string>()
  let difference: Difference | null = null
  let nowMs = run.startedAtMs
  let notesTold = 0

  const notReplayed = (): RunEvent | undefined => events.find((event) => isStep(event) && !replayedKeys.has(event.key!))

  function stop(kind: 'step' | 'note', step: string, replayed: Json): never {
    const next = notReplayed()
    // The record of a cancelled or active run ends somewhere.
    const mayEnd = next === undefined && run.status !== 'completed' && run.status !== 'failed'
    if (!mayEnd) {
      difference ??= {
        kind,
        step,
        sequence: next?.sequence ?? null,
        recorded: next === undefined ? null : { type: next.type, step: next.key },
        replayed,
      }
    }
    throw new RecordEnded(step)
  }

  function answer<T>(key: string): T {
    const event = byKey.get(key)
    if (event === undefined) return stop('step', key, { step: key })
    replayedKeys.add(key)
    nowMs = Math.max(nowMs, event.atMs)
    if (event.type === 'step_failed') {
      const { code, message, details } = event.payload as RunError
      throw new AppError(code, message, details)
    }
    return event.payload as T
  }

  function tell({ type, payload = {} }: NewEvent): void {
    const key = `~note-${++notesTold}`
    const event = byKey.get(key)
    // The last notes of an active run wait for its next step.
    if (event === undefined) return
    nowMs = Math.max(nowMs, event.atMs)
    const told = plainJson({ type, payload })
    const recorded = { type: event.type, payload: event.payload }
    if (isDeepStrictEqual(told, recorded)) return
    difference ??= { kind: 'note', step: null, sequence: event.sequence, recorded, replayed: told }
    throw new RecordEnded(key)
  }

  const steps: Steps = {
    signal: new AbortController().signal,
    nowMs: () => nowMs,
    once: async (key) => answer(key),
    recorded: (key) => byKey.get(key)?.payload,
    result(key) {
      const event = byKey.get(key)
      return event?.type === 'step_failed' ? undefined : event?.payload
    },
    note: (...told) => told.forEach(tell),
    tell: async () => {},
    setPosition() {},
    wait: async (key) => answer(key),
    child: async (key) => answer(key),
  }
  return {
    steps,
    difference: () => difference,
    answered: () => replayedKeys.size,
    unused(): Difference | null {
      const event = notReplayed()
      if (event === undefined) return null
      const { key: step, sequence, type } = event
      return { kind: 'unused', step, sequence, recorded: { type, step }, replayed: null }
    },
  }
}

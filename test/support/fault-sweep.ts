import { expect } from 'vitest'
import { type FaultPoint, installFaultPlan } from '../../src/kernel/fault.ts'
import { isLongRun } from './long-run.ts'

const TURNS_MAX = 200
const STRIDE = isLongRun ? 1 : 3
const FIRST = 4

type Swept<T> = Readonly<{
  /** Makes the ground of a turn, without faults, and waits until it is written. */
  prepare(turn: number): Promise<() => Promise<T>>
  /** Judges the state after a turn, with the store working again. `answer` is undefined where the attempt threw. */
  check(turn: number, where: string, answer: T | undefined): Promise<void>
  /** Whether the store fails once, or from there on until the attempt has ended. */
  kind?: 'passing' | 'lasting'
}>

/**
 * Makes an attempt with the store failing at each of its steps in turn, until one reaches no such step: for what is no single call of a
 * tool. A short run tries the first steps and then every third. What else the program does at the time may shift the steps, so a step
 * of a kind that has not failed yet is never passed over.
 */
export async function sweepFaults<T>({ prepare, check, kind = 'passing' }: Swept<T>): Promise<void> {
  const seen = new Set<FaultPoint>()
  let step = 1
  for (let turn = 1; turn < TURNS_MAX; turn++) {
    const attempt = await prepare(turn)
    let count = 0
    let hit: FaultPoint | undefined
    let failedStep = 0
    installFaultPlan((point) => {
      count++
      if (hit !== undefined && kind === 'passing') return
      if (hit === undefined && count !== step && (count > step || seen.has(point))) return
      if (hit === undefined) failedStep = count
      hit ??= point
      throw new Error(`planned at ${point}`)
    })
    const answer = await attempt().catch(() => undefined)
    installFaultPlan(undefined)
    await check(turn, `${kind} ${hit ?? 'no fault'}, step ${failedStep}`, answer)
    if (hit === undefined) {
      expect([...seen]).toEqual(expect.arrayContaining(['store.write']))
      return
    }
    seen.add(hit)
    if (failedStep === step) step += step < FIRST ? 1 : STRIDE
  }
  throw new Error('the operation never came to its end')
}

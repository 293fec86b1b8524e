import { describe, expect, it } from 'vitest'
import { boundedInTime } from './bounded-in-time.ts'

const TIMED_OUT = { code: 'ERR_SCRIPT_EXECUTION_TIMEOUT' }
const waitMs = (ms: number): void => void Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms)

describe('work that is bounded in time', () => {
  it('is aborted once it has used its time', () => {
    const endless = (): never => {
      for (;;);
    }
    expect(() => boundedInTime(200, endless)).toThrow(expect.objectContaining(TIMED_OUT))
  })

  it('is run again if the thread had no processor, and then aborted all the same', () => {
    let runs = 0
    const starvedOnce = (): string => {
      if (++runs === 1) waitMs(60_000)
      return 'done'
    }
    expect(boundedInTime(50, starvedOnce)).toBe('done')
    expect(runs).toBe(2)
    expect(() => boundedInTime(50, () => waitMs(60_000))).toThrow(expect.objectContaining(TIMED_OUT))
  })

  it('fails as it fails', () => {
    const failing = (): never => {
      throw new Error('its own')
    }
    expect(() => boundedInTime(1_000, failing)).toThrow('its own')
  })
})

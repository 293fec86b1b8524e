import { getEventListeners } from 'node:events'
import { describe, expect, test } from 'vitest'
import { pause } from './pause.ts'

describe('pause', () => {
  test('ends by itself and leaves no listener', async () => {
    const { signal } = new AbortController()
    await pause(1, signal)
    await pause(-5, signal)
    expect(getEventListeners(signal, 'abort')).toEqual([])
  })

  test('ends with the reason when it is stopped, before or meanwhile', async () => {
    const reason = new Error('the work is stopped')
    await expect(pause(1, AbortSignal.abort(reason))).rejects.toBe(reason)
    const controller = new AbortController()
    const paused = pause(Number.MAX_SAFE_INTEGER, controller.signal)
    expect(getEventListeners(controller.signal, 'abort')).toHaveLength(1)
    controller.abort(reason)
    await expect(paused).rejects.toBe(reason)
    expect(getEventListeners(controller.signal, 'abort')).toEqual([])
  })
})

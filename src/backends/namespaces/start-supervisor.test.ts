import { mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it, vi } from 'vitest'
import { ensureSupervisor } from './start-supervisor.ts'

const CLOSE_MS = 500

/** On a busy machine, closing a file may take longer than a whole start takes to fail. */
vi.mock('node:fs/promises', async (importOriginal) => {
  const real = await importOriginal<typeof import('node:fs/promises')>()
  const open: typeof real.open = async (...args) => {
    const handle = await real.open(...args)
    const close = handle.close
    handle.close = async () => {
      await new Promise((resolve) => setTimeout(resolve, CLOSE_MS))
      await close()
    }
    return handle
  }
  return { ...real, open }
})

it('notices a start that has ended before its log is closed', async () => {
  const directory = mkdtempSync(join(tmpdir(), 'castellan-early-end-'))
  const state = join(directory, 'workspaces')
  // A lock that cannot be opened as a file ends the start at once.
  mkdirSync(join(state, 'supervisor.lock'), { recursive: true })
  const options = { state, storeGb: 0, hostReserveMb: 0, tenantSharePercent: 80, version: 'test' }
  const began = performance.now()
  try {
    await expect(ensureSupervisor(options)).rejects.toMatchObject({ details: { exit_code: expect.any(Number) } })
    expect(performance.now() - began).toBeGreaterThan(CLOSE_MS)
  } finally {
    rmSync(directory, { recursive: true, force: true })
  }
})

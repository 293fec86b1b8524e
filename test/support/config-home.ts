import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterEach, beforeEach } from 'vitest'
import { type LoadConfigOptions, type LoadedConfig, loadConfig } from '../../src/app/config.ts'
import { AppError } from '../../src/contract/app-error.ts'

/** A new home and working directory for each test, and configurations that are loaded there. */
export function useConfigHome() {
  let home = ''
  beforeEach(() => {
    home = mkdtempSync(join(tmpdir(), 'castellan-config-'))
  })
  afterEach(() => rmSync(home, { recursive: true, force: true }))

  const path = (...parts: string[]): string => join(home, ...parts)
  const load = (options: Partial<LoadConfigOptions> = {}): Promise<LoadedConfig> =>
    loadConfig({ workingDirectory: home, ...options, env: { HOME: home, ...options.env } })

  function write(text: string, file = path('castellan.yaml')): string {
    mkdirSync(dirname(file), { recursive: true })
    writeFileSync(file, text)
    return file
  }

  async function refused(text: string, options: Partial<LoadConfigOptions> = {}): Promise<AppError> {
    try {
      await load({ configFile: write(text), ...options })
    } catch (error) {
      if (error instanceof AppError) return error
      throw error
    }
    throw new Error('the configuration was accepted')
  }

  return { path, load, write, refused }
}

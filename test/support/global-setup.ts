import { chmodSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { TestProject } from 'vitest/node'
import { startPostgres } from './postgres.ts'

declare module 'vitest' {
  export interface ProvidedContext {
    postgresUrl: string
    /** For what several files of tests share; everybody may enter it. */
    runDirectory: string
  }
}

/** One PostgreSQL cluster for the whole run; every suite makes databases of its own in it. */
export async function setup(project: TestProject): Promise<() => Promise<void>> {
  const runDirectory = mkdtempSync(join(tmpdir(), 'castellan-run-'))
  chmodSync(runDirectory, 0o755)
  project.provide('runDirectory', runDirectory)
  const cluster = await startPostgres()
  project.provide('postgresUrl', cluster.url)
  return async () => {
    await cluster.stop()
    rmSync(runDirectory, { recursive: true, force: true })
  }
}

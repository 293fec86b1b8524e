import { chmodSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { TestProject } from 'vitest/node'
import { startPostgres } from './postgres.ts'
import { quickFolder } from './temporary-folder.ts'

declare module 'vitest' {
  export interface ProvidedContext {
    postgresUrl: string
    /** Two places for folders of tests. */
    quickFolder: string
    diskFolder: string
    /** For what several files of tests share; everybody may enter it. */
    runDirectory: string
  }
}

/** One PostgreSQL cluster for the whole run; every suite makes databases of its own in it. */
export async function setup(project: TestProject): Promise<() => Promise<void>> {
  const runDirectory = mkdtempSync(join(tmpdir(), 'castellan-run-'))
  chmodSync(runDirectory, 0o755)
  project.provide('runDirectory', runDirectory)
  const folder = quickFolder()
  project.provide('quickFolder', folder)
  project.provide('diskFolder', tmpdir())
  const cluster = await startPostgres(folder)
  project.provide('postgresUrl', cluster.url)
  return async () => {
    await cluster.stop()
    rmSync(runDirectory, { recursive: true, force: true })
  }
}

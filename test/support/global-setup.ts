import { chmodSync, mkdtempSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { TestProject } from 'vitest/node'
import { startPostgres } from './postgres.ts'
import { makeRunFolder, removeRunFolder } from './run-folder.ts'
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
  const disk = makeRunFolder(tmpdir())
  const quick = quickFolder() === tmpdir() ? disk : makeRunFolder(quickFolder())
  const runDirectory = mkdtempSync(join(disk, 'castellan-run-'))
  chmodSync(runDirectory, 0o755)
  project.provide('runDirectory', runDirectory)
  project.provide('quickFolder', quick)
  project.provide('diskFolder', disk)
  const cluster = await startPostgres(quick)
  project.provide('postgresUrl', cluster.url)
  return async () => {
    await cluster.stop()
    for (const folder of new Set([quick, disk])) removeRunFolder(folder)
  }
}

import { writeFileSync } from 'node:fs'
import type { Reporter } from 'vitest/node'

/** Writes the paths of the files that failed, for `scripts/test.ts`. An error outside of any test is no file's: then it writes nothing. */
export const failedFilesReporter = (path: string): Reporter => ({
  onTestRunEnd(modules, errors, reason) {
    if (errors.length > 0 || reason === 'interrupted') return
    const failed = modules.filter((module) => !module.ok()).map(({ moduleId }) => moduleId)
    writeFileSync(path, JSON.stringify([...new Set(failed)]))
  },
})

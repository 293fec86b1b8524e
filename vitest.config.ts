import { defineConfig } from 'vitest/config'
import { failedFilesReporter } from './test/support/failed-files-reporter.ts'
import { LongestFirst } from './test/support/longest-first.ts'

/**
 * One replaces a module of Node for the whole process, one looks at the memory of its own, and one at the statements that are
 * registered as the program is loaded.
 */
const ownProcess = [
  'src/backends/namespaces/start-supervisor.test.ts',
  'src/supervisor/egress/egress-load.test.ts',
  'test/repo/generated.test.ts',
]
/**
 * These start git thousands of times. Each start copies the page tables of the process that starts it: 8 ms of processor time in a new
 * one, 50 ms in one that has grown to 1 GB.
 */
const manyStarts = ['src/domains/git/{merge*,service}.test.ts', 'src/tools/workspaces/git-tools.test.ts']
/** What one server takes of the machine, over time: one file at a time, after everything else. */
const alone = ['test/faults/{kill-under-load,mcp-server-lives,workspace-leaks}.test.ts']

/**
 * Files of one of these share their workers, one after another. Each gets new ones: a worker keeps all that its files loaded, and one
 * that has grown to 1 GB takes a tenth more processor time for each program that it starts.
 */
const shared = {
  'end to end': ['test/e2e/**/*.test.ts'],
  'many parts': ['test/!(e2e)/**/*.test.ts'],
  units: ['src/**/*.test.ts'],
}

/** One more than the cores of the machine that is measured. Five are no faster: the programs that tests start need the cores too. */
const workers = 3
/** Without the flag the young generation of a worker takes 100 MB more, and every program that a test starts waits for the copy. */
const execArgv = ['--max-semi-space-size=8']
const common = { pool: 'forks', execArgv, testTimeout: 240_000, hookTimeout: 240_000 } as const
/**
 * Node itself loads the modules, as it does in the program: Vite's own loader takes longer to load them and makes every use of an import
 * slower. What replaces a module needs Vite's.
 */
const native = { experimental: { viteModuleRunner: false, nodeLoader: false } } as const

const failedFiles = process.env['CASTELLAN_FAILED_FILES']

export default defineConfig({
  test: {
    ...(failedFiles === undefined ? {} : { reporters: ['default', failedFilesReporter(failedFiles)] }),
    sequence: { sequencer: LongestFirst },
    globalSetup: ['test/support/global-setup.ts'],
    setupFiles: ['test/support/temporary-folder-setup.ts', 'test/support/answer-check-setup.ts'],
    // A bound for what never comes; a busy machine must not reach it.
    expect: { poll: { timeout: 180_000 } },
    projects: [
      ...Object.entries(shared).map(([name, include]) => ({
        extends: true as const,
        test: {
          ...common,
          ...native,
          name,
          include,
          exclude: [...ownProcess, ...manyStarts, ...alone],
          // To load the program anew for each file takes as long as the tests do.
          isolate: false,
          maxWorkers: workers,
        },
      })),
      {
        extends: true,
        test: { ...common, ...native, name: 'many starts', include: manyStarts, maxWorkers: workers },
      },
      { extends: true, test: { ...common, name: 'isolated', include: ownProcess, maxWorkers: workers } },
      {
        extends: true,
        test: {
          ...common,
          ...native,
          name: 'alone',
          include: alone,
          fileParallelism: false,
          isolate: false,
          sequence: { groupOrder: 1 },
        },
      },
    ],
  },
})

import { defineConfig } from 'vitest/config'

/** The real program from outside, a process or more for each test. */
const fromOutside = [
  'test/e2e/**/*.test.ts',
  'test/conformance/**/*.test.ts',
  // They look at their own data directory alone, and load nothing.
  'test/faults/{execution-death,workflow-death,supervisor-start}.test.ts',
]
/** A server under load, or what the whole machine holds before and after: one file at a time, after everything else. */
const alone = ['test/faults/**/*.test.ts']

export default defineConfig({
  test: {
    globalSetup: ['test/support/global-setup.ts'],
    setupFiles: ['test/support/answer-check-setup.ts'],
    // A bound for what never comes; a busy machine must not reach it.
    expect: { poll: { timeout: 20_000 } },
    projects: [
      {
        extends: true,
        test: {
          name: 'parts',
          include: ['src/**/*.test.ts', 'test/**/*.test.ts'],
          exclude: [...fromOutside, ...alone],
          pool: 'forks',
          maxWorkers: 2,
          testTimeout: 60_000,
          hookTimeout: 120_000,
          sequence: { groupOrder: 0 },
        },
      },
      {
        extends: true,
        test: {
          name: 'processes',
          include: fromOutside,
          pool: 'forks',
          maxWorkers: 2,
          testTimeout: 180_000,
          hookTimeout: 120_000,
          sequence: { groupOrder: 1 },
        },
      },
      {
        extends: true,
        test: {
          name: 'faults',
          include: alone,
          exclude: fromOutside,
          pool: 'forks',
          fileParallelism: false,
          testTimeout: 180_000,
          hookTimeout: 120_000,
          sequence: { groupOrder: 2 },
        },
      },
    ],
  },
})

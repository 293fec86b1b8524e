import { defineConfig } from 'vitest/config'

/** Several processes each, or a whole server under load: one file at a time, after everything else. */
const heavy = ['test/e2e/**/*.test.ts', 'test/faults/**/*.test.ts', 'test/conformance/**/*.test.ts']

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
          exclude: heavy,
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
          include: heavy,
          pool: 'forks',
          fileParallelism: false,
          testTimeout: 180_000,
          hookTimeout: 120_000,
          sequence: { groupOrder: 1 },
        },
      },
    ],
  },
})

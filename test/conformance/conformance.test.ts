import { readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { parse } from 'yaml'
import { runNode } from '../support/run-node.ts'
import { type ServerHere, startServerHere } from '../support/server-here.ts'

/**
 * The official MCP conformance suite against the real server, which carries the suite's fixtures for this run.
 * Every scenario that a revision requires must pass. What the suite runs without requiring it may fail only if
 * expected-failures.yaml names it, and every name there must really fail: the list can only shrink.
 */
const suite = 'node_modules/@modelcontextprotocol/conformance/dist/index.js'
const fixtures = resolve('test/conformance/fixtures.ts')
const revisions = ['2025-11-25', '2026-07-28']
const skillScenarios = ['sep-2640-skills-directory', 'sep-2640-skills-enumeration', 'sep-2640-skills-manifest']
const SUITE_TIMEOUT_MS = 180_000

const expectedFailures = new Set(
  (parse(readFileSync('test/conformance/expected-failures.yaml', 'utf8')) as { server: string[] }).server,
)
const failedSomewhere = new Set<string>()

let server: ServerHere
let url: string
beforeAll(async () => {
  server = await startServerHere({ env: { CASTELLAN_TEST_FIXTURES: fixtures } })
  url = server.url
})
afterAll(() => server.stop())

async function requiredScenarios(revision: string): Promise<string[]> {
  const { stdout } = await runNode([suite, 'list', '--server', '--requirements', revision], SUITE_TIMEOUT_MS)
  const section = stdout.slice(stdout.indexOf('Server scenarios'), stdout.indexOf('Client scenarios'))
  return [...section.matchAll(/^ {2}- (\S+)$/gm)].map((match) => match[1]!)
}

describe('the conformance suite', () => {
  it.each(revisions)('passes everything that revision %s requires', { timeout: SUITE_TIMEOUT_MS }, async (revision) => {
    const required = await requiredScenarios(revision)
    expect(required.length).toBeGreaterThan(20)
    const run = await runNode([suite, 'server', '--url', url, '--requirements', revision], SUITE_TIMEOUT_MS)
    const verdicts = [...run.stdout.matchAll(/^([✓✗]) (\S+): (\d+) passed, (\d+) failed/gm)]
    const passed = verdicts.filter((verdict) => verdict[1] === '✓').map((verdict) => verdict[2]!)
    const failed = verdicts.filter((verdict) => verdict[1] === '✗').map((verdict) => verdict[2]!)
    for (const scenario of failed) failedSomewhere.add(scenario)

    expect(required.filter((scenario) => !passed.includes(scenario))).toEqual([])
    expect(required.filter((scenario) => expectedFailures.has(scenario))).toEqual([])
    expect(failed.filter((scenario) => !expectedFailures.has(scenario))).toEqual([])
    expect(run.code).toBe(0)
  })

  it('fails everything that is expected to fail', () => {
    expect([...expectedFailures].filter((scenario) => !failedSomewhere.has(scenario))).toEqual([])
  })

  const skillRuns = skillScenarios.flatMap((scenario) => revisions.map((revision) => [scenario, revision] as const))
  it.each(skillRuns)('passes %s in revision %s', { timeout: SUITE_TIMEOUT_MS }, async (scenario, revision) => {
    const args = ['server', '--url', url, '--scenario', scenario, '--spec-version', revision, '--force']
    const run = await runNode([suite, ...args], SUITE_TIMEOUT_MS)
    expect(run.stdout).toMatch(/Passed: (\d+)\/\1, 0 failed, 0 warnings/)
    expect(run.code).toBe(0)
  })
})

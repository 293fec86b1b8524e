import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { stageNames } from '../../src/tools/runtime/stages.ts'
import { type Answer, openTestApp, type TestApp } from '../support/app.ts'
import { expectFailure, newTask } from '../support/ledger.ts'

let app: TestApp
beforeEach(async () => {
  app = await openTestApp()
})
afterEach(() => app[Symbol.asyncDispose]())

const writeSkill = (name: string, text: string): void => {
  const folder = join(app.dataDir, '.agents', 'skills', name)
  mkdirSync(folder, { recursive: true })
  writeFileSync(join(folder, 'SKILL.md'), text)
}
const skillText = (name: string, description: string, capabilities: string): string =>
  `---\nname: ${name}\nversion: 1.0.0\ndescription: ${description}\ncapabilities: ${capabilities}\n---\n\n# ${name}\n`

type SkillList = { skills: Answer[]; total_count: number }
const skills = (args: object = {}) => app.ask<SkillList>('skill_list', args)
const namesOf = async (args: object) => (await skills(args)).skills.map(({ name }) => name)

describe('server_ping', () => {
  it('answers that it is there, and when', async () => {
    expect(await app.ask('server_ping')).toEqual({ ok: true, timestamp: expect.stringMatching(/Z$/) })
    await expectFailure(app, 'server_ping', { hello: 1 }, 'ERR_INVALID_INPUT', { field: 'hello' })
  })

  it('answers while everything else is busy', async () => {
    const order: string[] = []
    const writes = Array.from({ length: 300 }, () => newTask(app).then(() => order.push('write')))
    const ping = app.ask('server_ping').then(() => order.push('ping'))
    await Promise.all([...writes, ping])
    expect(order.indexOf('ping')).toBeLessThan(300)
    expect(order).toHaveLength(301)
  })
})

describe('server_health', () => {
  it('answers what the document says, and it is true', async () => {
    const health = await app.ask<Answer & { uptime_ms: number; timestamp: string }>('server_health')
    expect(health).toEqual({
      status: 'ok',
      mode: 'FULL',
      uptime_ms: expect.any(Number),
      db: { open: true, user_version: expect.any(Number), path: join(app.dataDir, 'castellan.db') },
      governance: 'permissive',
      middleware: { stages: [...stageNames] },
      tools: { registered: app.app.catalog.tools.length },
      version: '0.0.0-test',
      timestamp: expect.stringMatching(/Z$/),
      owner_pid: process.pid,
      process: { pid: process.pid, rss_bytes: expect.any(Number), heap_used_bytes: expect.any(Number) },
      problems: [],
    })
    const version = app.behindItsBack((db) => db.prepare('PRAGMA user_version').get())
    expect(health['db']).toMatchObject(version!)
    expect(health.uptime_ms).toBeGreaterThanOrEqual(0)
  })

  it('is degraded by a skill that cannot be read, and says which', async () => {
    writeSkill('broken', 'no front matter')
    await vi.waitFor(async () => expect(await app.ask('server_health')).toMatchObject({ status: 'degraded' }), {
      timeout: 180_000,
    })
    const { problems } = await app.ask<{ problems: string[] }>('server_health')
    expect(problems).toEqual([expect.stringContaining('.agents/skills/broken/SKILL.md')])
  })
})

describe('skill_list', () => {
  beforeEach(async () => {
    writeSkill(
      'colibri-tier1-chains',
      skillText('colibri-tier1-chains', 'Canonical Tier 1 round chains.', '[round-plan, writeback-audit]'),
    )
    writeSkill('review', skillText('review', 'How to review.', '[audit]'))
  })

  it('answers the example of the document in its shape', async () => {
    expect(await skills({ search: 'tier1' })).toEqual({
      skills: [
        {
          name: 'colibri-tier1-chains',
          version: '1.0.0',
          description: 'Canonical Tier 1 round chains.',
          capabilities: ['round-plan', 'writeback-audit'],
          path: '.agents/skills/colibri-tier1-chains/SKILL.md',
        },
      ],
      total_count: 1,
    })
  })

  it('filters by part of the name or description, and by capability', async () => {
    expect(await namesOf({})).toEqual(['colibri-tier1-chains', 'review'])
    expect(await namesOf({ search: 'HOW TO' })).toEqual(['review'])
    expect(await namesOf({ capability: 'audit' })).toEqual(['review'])
    expect(await namesOf({ capability: 'round-plan', search: 'chain' })).toEqual(['colibri-tier1-chains'])
    expect(await namesOf({ capability: 'round' })).toEqual([])
    await expectFailure(app, 'skill_list', { search: 7 }, 'ERR_INVALID_INPUT', { field: 'search' })
    await expectFailure(app, 'skill_list', { capability: 'x'.repeat(201) }, 'ERR_INVALID_INPUT', {
      field: 'capability',
    })
  })

  it('sees skills come and leaves out what it cannot read', async () => {
    expect(await namesOf({})).toHaveLength(2)
    writeSkill('broken', '---\nname: [\n---\n')
    writeSkill('newest', skillText('newest', 'Just written.', '[]'))
    await vi.waitFor(async () => expect(await namesOf({})).toEqual(['colibri-tier1-chains', 'newest', 'review']), {
      timeout: 180_000,
    })
  })
})

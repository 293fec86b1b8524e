import { mkdir, mkdtemp, realpath, rm, truncate, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { limits } from '../contract/limits.ts'
import { rightsOf } from '../contract/permissions.ts'
import { localOwner, type Principal } from '../contract/principal.ts'
import { createSkillService } from '../domains/skills/service.ts'
import { systemClock } from '../kernel/clock.ts'
import { type Logger, silentLogger } from '../kernel/logger.ts'
import { createSkillCatalog } from '../mcp/skill-catalog.ts'
import { createSkillSource } from '../stores/files/skill-source.ts'
import { adaptSkills } from './skill-adapter.ts'

let root: string
let closers: (() => void)[]

beforeEach(async () => {
  root = await realpath(await mkdtemp(join(tmpdir(), 'castellan-adapter-')))
  closers = []
})
afterEach(async () => {
  for (const close of closers) close()
  await rm(root, { recursive: true, force: true })
})

async function write(path: string, text: string): Promise<string> {
  const full = join(root, '.agents/skills', path)
  await mkdir(dirname(full), { recursive: true })
  await writeFile(full, text)
  return full
}

const skill = (name: string): Promise<string> =>
  write(`${name}/SKILL.md`, `---\nname: ${name}\ndescription: About ${name}.\n---\n\n# ${name}\n`)

const tooLarge = async (path: string): Promise<void> => truncate(await write(path, ''), limits.skillFileBytesMax + 1)

const scoped: Principal = { ...localOwner, ...rightsOf('member', ['task:read']) }

function open() {
  const warnings: unknown[] = []
  const logger: Logger = { ...silentLogger, warn: (_message, fields) => warnings.push(fields) }
  const source = createSkillSource({ roots: [root], protectedDirectories: [], clock: systemClock })
  closers.push(() => source.close())
  return { warnings, adapted: adaptSkills(createSkillService({ source, logger }), logger) }
}

describe('skills on disk as the MCP transport asks for them', () => {
  it('shows the very first skill to the caller that asked before it was there', async () => {
    const { adapted } = open()
    const catalog = createSkillCatalog({ source: adapted, logger: silentLogger })
    let changes = 0
    adapted.onChange(() => {
      changes++
      catalog.clear()
    })
    expect((await catalog.snapshot(localOwner)).skills).toEqual([])
    await skill('review')
    expect((await catalog.snapshot(localOwner)).skills.map(({ uri }) => uri)).toEqual(['skill://review/SKILL.md'])
    expect(changes).toBeGreaterThan(0)
  })

  it('lists each skill with all its files', async () => {
    await skill('review')
    await write('review/references/guide.md', '# Guide\n')
    await skill('summary')
    const { adapted, warnings } = open()
    expect(await adapted.list(localOwner)).toEqual([
      { name: 'review', description: 'About review.', files: ['SKILL.md', 'references/guide.md'] },
      { name: 'summary', description: 'About summary.', files: ['SKILL.md'] },
    ])
    expect(warnings).toEqual([])
  })

  it('leaves out and logs a skill whose files cannot be listed', async () => {
    await skill('heavy')
    await tooLarge('heavy/film.bin')
    await skill('summary')
    const { adapted, warnings } = open()
    expect((await adapted.list(localOwner)).map(({ name }) => name)).toEqual(['summary'])
    expect(warnings).toMatchObject([{ skill: 'heavy', cause: expect.stringContaining('film.bin') }])
  })

  it('answers undefined for a skill or file that is not there, and passes other refusals on', async () => {
    await skill('review')
    await tooLarge('review/film.bin')
    const { adapted } = open()
    const read = (name: string, path: string) => adapted.read(localOwner, name, path)
    expect(Buffer.from((await read('review', 'SKILL.md'))!).toString()).toContain('# review')
    expect(await read('review', 'none.md')).toBeUndefined()
    expect(await read('review', '../review/SKILL.md')).toBeUndefined()
    expect(await read('none', 'SKILL.md')).toBeUndefined()
    await expect(read('review', 'film.bin')).rejects.toMatchObject({ code: 'ERR_TOO_LARGE' })
  })

  it('shows nothing to a principal without skill:read, before and after others of its tenant have looked', async () => {
    await skill('review')
    const { adapted } = open()
    const catalog = createSkillCatalog({ source: adapted, logger: silentLogger })
    const [uri] = [...(await catalog.snapshot(localOwner)).files.keys()]
    catalog.clear()
    for (const principal of [scoped, localOwner, scoped]) {
      const isReader = principal === localOwner
      expect(await adapted.list(principal)).toHaveLength(isReader ? 1 : 0)
      expect((await adapted.read(principal, 'review', 'SKILL.md')) !== undefined).toBe(isReader)
      expect((await catalog.snapshot(principal)).skills).toHaveLength(isReader ? 1 : 0)
      expect((await catalog.read(principal, uri!)) !== undefined).toBe(isReader)
    }
  })

  it('tells of a change until it is told to stop', async () => {
    await skill('review')
    const { adapted } = open()
    let changes = 0
    const stop = adapted.onChange(() => changes++)
    await adapted.list(localOwner)
    await skill('summary')
    await adapted.list(localOwner)
    expect(changes).toBeGreaterThan(0)
    stop()
    const before = changes
    await skill('third')
    expect(await adapted.list(localOwner)).toHaveLength(3)
    expect(changes).toBe(before)
  })

  it('gives the MCP catalogue what it publishes', async () => {
    await skill('review')
    await write('review/references/guide.md', '# Guide\n')
    const { adapted } = open()
    const catalog = createSkillCatalog({ source: adapted, logger: silentLogger })
    const { skills, files } = await catalog.snapshot(localOwner)
    expect(skills).toHaveLength(1)
    const guide = [...files].find(([, file]) => file.path === 'references/guide.md')!
    expect(await catalog.read(localOwner, guide[0])).toMatchObject({ text: '# Guide\n' })
  })
})

import { mkdir, mkdtemp, realpath, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { createSkillService } from '../../domains/skills/service.ts'
import { systemClock } from '../../kernel/clock.ts'
import { silentLogger } from '../../kernel/logger.ts'
import { createSkillSource } from './skill-source.ts'

let base: string
let closers: (() => void)[]

beforeEach(async () => {
  base = await realpath(await mkdtemp(join(tmpdir(), 'castellan-boundary-')))
  closers = []
})
afterEach(async () => {
  for (const close of closers) close()
  await rm(base, { recursive: true, force: true })
})

async function write(path: string, text: string): Promise<void> {
  const full = join(base, path)
  await mkdir(dirname(full), { recursive: true })
  await writeFile(full, text)
}

const manifest = '---\ndescription: x\n---\nbody\n'
const skill = (root: string, name: string): Promise<void> => write(`${root}/.agents/skills/${name}/SKILL.md`, manifest)

function open(roots: readonly string[], protectedDirectories: readonly string[] = []) {
  const source = createSkillSource({
    roots: roots.map((root) => join(base, root)),
    protectedDirectories,
    clock: systemClock,
  })
  closers.push(() => source.close())
  return { source, skills: createSkillService({ source, logger: silentLogger }) }
}

describe('what links may lead to', () => {
  const link = async (name: string, target: string): Promise<void> => {
    await mkdir(join(base, 'a/.agents/skills'), { recursive: true })
    await symlink(target, join(base, 'a/.agents/skills', name))
  }
  const openProtected = (roots: readonly string[]) => open(roots, [join(base, 'a/state')])
  const displayedBy = async ({ skills }: ReturnType<typeof open>) => ({
    names: (await skills.list()).skills.map(({ name }) => name),
    problems: (await skills.problems()).map(({ path, reason }) => [path.split('/')[2], reason] as const),
  })

  it('is a skill in the skills folder of some root, and nothing else in the roots', async () => {
    await skill('a', 'real')
    await skill('b', 'other')
    for (const folder of ['a', 'a/elsewhere', 'a/.agents', 'a/.agents/skills', 'a/.agents/skills/real/inner', '.']) {
      await write(`${folder}/SKILL.md`, manifest)
    }
    await link('again', 'real')
    await link('from-b', join(base, 'b/.agents/skills/other'))
    await link('to-root', '../..')
    await link('to-above', '../../..')
    await link('to-agents', '..')
    await link('to-itself', '.')
    await link('to-elsewhere', '../../elsewhere')
    await link('to-inner', 'real/inner')
    const { names, problems } = await displayedBy(open(['a', 'b']))
    expect(names).toEqual(['again', 'from-b', 'other', 'real'])
    const refused = ['to-above', 'to-agents', 'to-elsewhere', 'to-inner', 'to-itself', 'to-root']
    expect(problems.map(([name]) => name)).toEqual(refused)
    for (const [, reason] of problems) expect(reason).toContain('leaves the skills folders of the roots')
  })

  it('is never a protected directory, what holds it, or what lies in it beside its own skills', async () => {
    await skill('a/state', 'kept')
    for (const folder of ['a', 'a/state', 'a/state/inner', 'a/state/.agents']) {
      await write(`${folder}/SKILL.md`, manifest)
    }
    await link('to-root', '../..')
    await link('to-state', '../../state')
    await link('to-inner', '../../state/inner')
    await link('to-agents', '../../state/.agents')
    await link('to-kept', '../../state/.agents/skills/kept')
    const { names, problems } = await displayedBy(openProtected(['a', 'a/state']))
    expect(names).toEqual(['kept', 'to-kept'])
    expect(problems).toEqual([
      ['to-agents', 'its folder is in the data directory, which is never served'],
      ['to-inner', 'its folder is in the data directory, which is never served'],
      ['to-root', 'its folder contains the data directory, which is never served'],
      ['to-state', 'its folder is in the data directory, which is never served'],
    ])
  })

  it('protects the directory though the whole skills folder is a link', async () => {
    await write('a/state/SKILL.md', manifest)
    await write('a/state/inner/SKILL.md', manifest)
    await write('a/beside/SKILL.md', manifest)
    await mkdir(join(base, 'a/.agents'))
    await symlink('..', join(base, 'a/.agents/skills'))
    const up = await displayedBy(openProtected(['a']))
    expect(up.names).toEqual(['beside'])
    expect(up.problems).toEqual([['state', 'its folder is in the data directory, which is never served']])
    await rm(join(base, 'a/.agents/skills'))
    await symlink('../state', join(base, 'a/.agents/skills'))
    const into = await displayedBy(openProtected(['a']))
    expect(into).toEqual({
      names: [],
      problems: [[undefined, 'it is in the data directory, which is never served']],
    })
  })

  it('is judged anew when a skill that was found is read', async () => {
    await skill('a', 'one')
    await write('a/state/SKILL.md', manifest)
    await write('a/state/secret.txt', 'secret')
    const { source } = openProtected(['a'])
    const [location] = (await source.scan()).found
    await rm(join(base, 'a/.agents/skills/one'), { recursive: true })
    await link('one', '../../state')
    await expect(source.files(location!)).rejects.toMatchObject({ code: 'ERR_NOT_FOUND' })
    await expect(source.readFile(location!, 'secret.txt', 100)).rejects.toMatchObject({ code: 'ERR_NOT_FOUND' })
  })
})

import { execFile } from 'node:child_process'
import { mkdir, mkdtemp, realpath, rename, rm, stat, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { AppError } from '../../contract/app-error.ts'
import { limits } from '../../contract/limits.ts'
import { createSkillService } from '../../domains/skills/service.ts'
import { type Clock, systemClock } from '../../kernel/clock.ts'
import { sha256Hex } from '../../kernel/hash.ts'
import { silentLogger } from '../../kernel/logger.ts'
import { stampOf } from './skill-files.ts'
import { createSkillSource, type SkillSourceDeps } from './skill-source.ts'

let base: string
let closers: (() => void)[]

beforeEach(async () => {
  base = await realpath(await mkdtemp(join(tmpdir(), 'castellan-skills-')))
  closers = []
})
afterEach(async () => {
  for (const close of closers) close()
  await rm(base, { recursive: true, force: true })
})

async function write(path: string, text: string | Uint8Array): Promise<void> {
  const full = join(base, path)
  await mkdir(dirname(full), { recursive: true })
  await writeFile(full, text)
}

const manifest = (fields: Record<string, string>): string =>
  `---\n${Object.entries(fields)
    .map(([key, value]) => `${key}: ${value}`)
    .join('\n')}\n---\nbody\n`

const skill = (root: string, name: string, fields: Record<string, string> = {}): Promise<void> =>
  write(`${root}/.agents/skills/${name}/SKILL.md`, manifest({ name, description: `About ${name}`, ...fields }))

function open(roots: readonly string[], more: Partial<SkillSourceDeps> = {}) {
  const source = createSkillSource({
    roots: roots.map((root) => join(base, root)),
    protectedDirectories: [],
    clock: systemClock,
    ...more,
  })
  closers.push(() => source.close())
  return { source, skills: createSkillService({ source, logger: silentLogger }) }
}

const refuse = () => {
  throw Object.assign(new Error('no watches left'), { code: 'ENOSPC' })
}

describe('listing', () => {
  it('answers the skills of a root by name, with the path relative to the root', async () => {
    await skill('a', 'zeta', { version: '1.0' })
    await skill('a', 'alpha', { capabilities: '[round-plan, writeback-audit]' })
    const { skills } = open(['a'])
    expect(await skills.list()).toEqual({
      skills: [
        {
          name: 'alpha',
          version: '0.0.0',
          description: 'About alpha',
          capabilities: ['round-plan', 'writeback-audit'],
          path: '.agents/skills/alpha/SKILL.md',
        },
        {
          name: 'zeta',
          version: '1.0',
          description: 'About zeta',
          capabilities: [],
          path: '.agents/skills/zeta/SKILL.md',
        },
      ],
      total_count: 2,
    })
  })

  it('filters by part of name or description in any case, and by exact capability', async () => {
    await skill('a', 'tier1-chains', { description: 'Round plans', capabilities: 'audit' })
    await skill('a', 'other', { description: 'For TIER1 only', capabilities: 'auditing' })
    await skill('a', 'third', { description: 'Nothing', capabilities: 'audit, x' })
    const { skills } = open(['a'])
    const names = async (filter: { search?: string; capability?: string }) =>
      (await skills.list(filter)).skills.map(({ name }) => name)
    expect(await names({ search: 'Tier1' })).toEqual(['other', 'tier1-chains'])
    expect(await names({ capability: 'audit' })).toEqual(['third', 'tier1-chains'])
    expect(await names({ search: 'tier1', capability: 'audit' })).toEqual(['tier1-chains'])
    expect(await names({ search: '' })).toHaveLength(3)
    expect(await skills.list({ capability: 'Audit' })).toEqual({ skills: [], total_count: 0 })
  })

  it('prefers the first root and reports the other file', async () => {
    await skill('a', 'same', { description: 'first' })
    await skill('b', 'same', { description: 'second' })
    await skill('b', 'only-b')
    const { skills } = open(['a', 'missing', 'b', 'a'])
    expect((await skills.list()).skills.map(({ description }) => description)).toEqual(['About only-b', 'first'])
    expect(await skills.problems()).toEqual([
      { path: '.agents/skills/same/SKILL.md', reason: 'an earlier root has a skill of this name; that one is used' },
    ])
  })

  it('skips bad files, reports each, and keeps the good ones', async () => {
    await skill('a', 'good')
    await write('a/.agents/skills/no-front-matter/SKILL.md', '# hello')
    await write('a/.agents/skills/binary/SKILL.md', Buffer.from([0x2d, 0x2d, 0x2d, 0x0a, 0xff, 0xfe]))
    await write('a/.agents/skills/large/SKILL.md', `---\na: b\n---\n${'x'.repeat(limits.skillManifestBytesMax)}`)
    await mkdir(join(base, 'a/.agents/skills/folder/SKILL.md'), { recursive: true })
    await mkdir(join(base, 'a/.agents/skills/empty'))
    await write('a/.agents/skills/README.md', 'not a skill')
    const { skills } = open(['a'])
    expect((await skills.list()).skills.map(({ name }) => name)).toEqual(['good'])
    const problems = await skills.problems()
    expect(Object.fromEntries(problems.map(({ path, reason }) => [path.split('/')[2], reason]))).toEqual({
      binary: 'SKILL.md is not UTF-8 text',
      folder: 'SKILL.md is not a regular file',
      large: `SKILL.md is larger than ${limits.skillManifestBytesMax} bytes`,
      'no-front-matter': 'the first line is not "---": front matter is missing',
    })
  })

  it('refuses links that leave the roots, and follows those that stay inside', async () => {
    await write('outside/SKILL.md', manifest({ description: 'secret' }))
    await skill('a', 'real')
    await symlink(join(base, 'outside'), join(base, 'a/.agents/skills/escape'))
    await mkdir(join(base, 'a/.agents/skills/linked-file'))
    await symlink(join(base, 'outside/SKILL.md'), join(base, 'a/.agents/skills/linked-file/SKILL.md'))
    await symlink('real', join(base, 'a/.agents/skills/again'))
    await symlink('nowhere', join(base, 'a/.agents/skills/dangling'))
    const { skills } = open(['a'])
    expect((await skills.list()).skills.map(({ name }) => name)).toEqual(['again', 'real'])
    expect((await skills.problems()).map(({ path, reason }) => [path.split('/')[2], reason])).toEqual([
      [
        'escape',
        'its folder is a link that leaves the skills folders of the roots; link to a skill in .agents/skills of a root',
      ],
      ['linked-file', 'SKILL.md is a link that leaves its folder'],
    ])
  })
})

describe('changes', () => {
  const versions = async (skills: ReturnType<typeof open>['skills']) =>
    (await skills.list()).skills.map(({ name, version }) => `${name}@${version}`)

  it('sees what was complete before the call: edits, new, renamed and removed skills', async () => {
    await skill('a', 'one', { version: '1.0' })
    const { skills } = open(['a'])
    expect(await versions(skills)).toEqual(['one@1.0'])
    for (let minor = 1; minor < 6; minor++) {
      await skill('a', 'one', { version: `1.${minor}` })
      expect(await versions(skills)).toEqual([`one@1.${minor}`])
    }
    await skill('a', 'two', { version: '2' })
    expect(await versions(skills)).toEqual(['one@1.5', 'two@2'])
    await skill('a', 'two', { version: '3' })
    expect(await versions(skills)).toEqual(['one@1.5', 'two@3'])
    await rename(join(base, 'a/.agents/skills/two'), join(base, 'a/.agents/skills/three'))
    expect(await versions(skills)).toEqual(['one@1.5', 'three@3'])
    await rm(join(base, 'a/.agents/skills/one'), { recursive: true })
    expect(await versions(skills)).toEqual(['three@3'])
    await skill('a', 'one', { version: '9' })
    expect(await versions(skills)).toEqual(['one@9', 'three@3'])
  })

  it('sees a root and its folders appear, move away and come back', async () => {
    const { skills } = open(['late'])
    expect(await versions(skills)).toEqual([])
    await mkdir(join(base, 'late/.agents'), { recursive: true })
    expect(await versions(skills)).toEqual([])
    await skill('late', 'one', { version: '1' })
    expect(await versions(skills)).toEqual(['one@1'])
    await rename(join(base, 'late/.agents'), join(base, 'late/moved'))
    expect(await versions(skills)).toEqual([])
    await skill('late', 'one', { version: '2' })
    expect(await versions(skills)).toEqual(['one@2'])
  })

  it('answers from memory while nothing changed', async () => {
    await skill('a', 'one')
    const { source } = open(['a'])
    const first = await source.scan()
    expect(await source.scan()).toBe(first)
    await skill('a', 'two')
    expect(await source.scan()).not.toBe(first)
  })

  it('tells listeners of other skills and of other files, until they leave', async () => {
    await skill('a', 'one')
    await write('a/.agents/skills/one/references/x.md', 'x')
    const { source, skills } = open(['a'])
    let changes = 0
    let bursts = 0
    const stop = skills.onChange(() => changes++)
    await skills.list()
    await skills.files('one')
    expect(changes).toBe(0)
    const steps: (() => Promise<void>)[] = [
      () => skill('a', 'two'),
      () => write('a/.agents/skills/one/notes.txt', 'x'),
      () => write('a/.agents/skills/one/references/y.md', 'y'),
    ]
    for (const step of steps) {
      const before = changes
      await step()
      await vi.waitFor(() => expect(changes).toBeGreaterThan(before), { timeout: 180_000 })
    }
    stop()
    const before = changes
    source.onChange(() => bursts++)
    await skill('a', 'three')
    await vi.waitFor(() => expect(bursts).toBeGreaterThan(0), { timeout: 180_000 })
    expect((await skills.list()).total_count).toBe(3)
    expect(changes).toBe(before)
  })

  it('reads again after two seconds where folders cannot be watched', async () => {
    await skill('a', 'one', { version: '1' })
    let elapsedMs = 0
    const clock: Clock = { nowMs: systemClock.nowMs, monotonicMs: () => elapsedMs }
    const { skills } = open(['a'], { clock, watch: refuse })
    expect(await versions(skills)).toEqual(['one@1'])
    await skill('a', 'one', { version: '2' })
    elapsedMs = 1_999
    expect(await versions(skills)).toEqual(['one@1'])
    elapsedMs = 2_001
    expect(await versions(skills)).toEqual(['one@2'])
  })

  it('trusts the times of a file only once they have settled', async () => {
    await write('file', 'x')
    const found = await stat(join(base, 'file'), { bigint: true })
    const clockAt = (ms: number): Clock => ({ nowMs: () => ms, monotonicMs: () => 0 })
    const changedAtMs = Number(found.ctimeMs)
    expect(stampOf(found, clockAt(changedAtMs + 10))).not.toBe(stampOf(found, clockAt(changedAtMs + 10)))
    expect(stampOf(found, clockAt(changedAtMs + 500))).toBe(stampOf(found, clockAt(changedAtMs + 900)))
  })

  it('does not keep the process alive', async () => {
    await skill('a', 'one')
    const script = `
      const { createSkillSource } = await import(${JSON.stringify(new URL('./skill-source.ts', import.meta.url).href)})
      const { systemClock } = await import(${JSON.stringify(new URL('../../kernel/clock.ts', import.meta.url).href)})
      const source = createSkillSource({ roots: [${JSON.stringify(join(base, 'a'))}], protectedDirectories: [], clock: systemClock })
      source.onChange(() => {})
      console.log((await source.scan()).found.length)`
    const { stdout } = await promisify(execFile)(process.execPath, ['--input-type=module', '-e', script])
    expect(stdout.trim()).toBe('1')
  })
})

describe('files of a skill', () => {
  it('lists every file with size and digest, and serves the same bytes', async () => {
    await skill('a', 'one')
    await write('a/.agents/skills/one/references/deep/FORMS.md', 'forms')
    await write('a/.agents/skills/one/.hidden', 'no')
    await write('a/.agents/skills/one/logo.bin', Buffer.from([0, 255, 1]))
    const { skills } = open(['a'])
    const files = await skills.files('one')
    expect(files.map(({ file }) => file)).toEqual(['SKILL.md', 'logo.bin', 'references/deep/FORMS.md'])
    for (const { file, sizeBytes, sha256 } of files) {
      const bytes = await skills.readFile('one', file)
      expect([bytes.byteLength, sha256Hex(bytes)]).toEqual([sizeBytes, sha256])
    }
    await write('a/.agents/skills/one/references/deep/FORMS.md', 'FORMS')
    expect((await skills.files('one'))[2]!.sha256).toBe(sha256Hex('FORMS'))
  })

  it('refuses every way out of the folder with the answer for a file that is not there', async () => {
    await write('a/secret.txt', 'secret')
    await write('a/folder/secret.txt', 'secret')
    await skill('a', 'one')
    await skill('a', 'two')
    const folder = join(base, 'a/.agents/skills/one')
    await symlink(join(base, 'a/secret.txt'), join(folder, 'link.txt'))
    await symlink(join(base, 'a/folder'), join(folder, 'linked'))
    await symlink('SKILL.md', join(folder, 'inside.md'))
    const { skills } = open(['a'])
    const answer = (file: string) =>
      skills.readFile('one', file).then(
        () => 'served',
        (error: unknown) => (error instanceof AppError ? `${error.code} ${error.message}` : String(error)),
      )
    const absent = await answer('absent.txt')
    expect(absent).toBe('ERR_NOT_FOUND file: no such file in skill one')
    for (const file of [
      'link.txt',
      'linked/secret.txt',
      'linked',
      '../two/SKILL.md',
      '../../../secret.txt',
      join(base, 'a/secret.txt'),
      './SKILL.md',
      'SKILL.md/',
      '',
      '.',
      'a\0b',
      '..\\two\\SKILL.md',
      'x'.repeat(5_000),
    ]) {
      expect([file, await answer(file)]).toEqual([file, absent])
    }
    expect(await answer('inside.md')).toBe('served')
    expect((await skills.files('one')).map(({ file }) => file)).toEqual(['SKILL.md', 'inside.md'])
    await expect(skills.files('none')).rejects.toMatchObject({ code: 'ERR_SKILL_NOT_FOUND' })
    await expect(skills.readFile('../a', 'SKILL.md')).rejects.toMatchObject({ code: 'ERR_SKILL_NOT_FOUND' })
  })

  it('neither waits on a pipe nor serves a file over the limit', async () => {
    await skill('a', 'one')
    await promisify(execFile)('mkfifo', [join(base, 'a/.agents/skills/one/pipe')])
    await write('a/.agents/skills/two/SKILL.md', manifest({ description: 'x' }))
    await write('a/.agents/skills/two/big', Buffer.alloc(limits.skillFileBytesMax + 1))
    const { skills } = open(['a'])
    await expect(skills.readFile('one', 'pipe')).rejects.toMatchObject({ code: 'ERR_NOT_FOUND' })
    expect((await skills.files('one')).map(({ file }) => file)).toEqual(['SKILL.md'])
    await expect(skills.readFile('two', 'big')).rejects.toMatchObject({ code: 'ERR_TOO_LARGE' })
    await expect(skills.files('two')).rejects.toMatchObject({ code: 'ERR_TOO_LARGE' })
  })

  it('refuses to list a skill with too many files', async () => {
    await skill('a', 'one')
    await Promise.all(
      Array.from({ length: limits.skillFilesMax }, (_, index) => write(`a/.agents/skills/one/f${index}`, '')),
    )
    await expect(open(['a']).skills.files('one')).rejects.toMatchObject({ code: 'ERR_TOO_LARGE' })
  })
})

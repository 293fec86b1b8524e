import { spawnSync } from 'node:child_process'
import { describe, expect, test } from 'vitest'
import { launcher } from '../support/castellan-client.ts'
import { errorOf, openCliHome } from '../support/cli-home.ts'
import { homeEnvironment } from '../support/run-castellan.ts'

/** The arguments of a call as people write them, and what shells offer for them. */
const { home, plain, onState, call, write } = openCliHome()

describe('completion', () => {
  const words = async (...supplied: string[]) =>
    (await plain(['completion', 'words', '--', ...supplied])).stdout.split('\n').slice(0, -1)

  test('offers commands, flags, tools, fields and values', async () => {
    expect(await words('ver')).toEqual(['verify', 'version'])
    expect(await words('serve', '--po')).toEqual(['--port'])
    expect(await words('call', 'task_cr')).toEqual(['task_create'])
    expect(await words('call', 'task_create', 'pri')).toEqual(['priority='])
    expect(await words('call', 'task_create', 'priority=h')).toEqual(['priority=high'])
  })

  test('works in a real bash', async () => {
    const asked = `
      castellan() { "${launcher}" "$@"; }
      source <(castellan completion bash)
      COMP_WORDS=(castellan call task_create priority=h); COMP_CWORD=3
      _castellan 2>/dev/null
      printf '%s\\n' "\${COMPREPLY[@]}"`
    const { stdout } = spawnSync('bash', ['-c', asked], { encoding: 'utf8', env: homeEnvironment(home) })
    expect(stdout).toBe('priority=high\n')
  })

  test.each(['zsh', 'fish'])('has a script for %s, and says which others there are', async (shell) => {
    expect((await plain(['completion', shell])).stdout).toContain('castellan completion words')
    expect((await plain(['completion', 'csh'])).stderr).toContain('Use bash, zsh, fish.')
  })
})

describe('arguments of a call', () => {
  test('come from files and from what is piped in, and an at sign can be written', async () => {
    const file = write('title.txt', 'From a file')
    const fromFile = await call(
      'task_create',
      `title=@${file}`,
      'project=files',
      'assignee=@@ann',
      'labels=@labels.json',
    )
    expect(errorOf(fromFile).message).toContain("the file 'labels.json' cannot be read (ENOENT)")
    write('labels.json', '["a","b"]')
    const made = await call('task_create', 'title=@title.txt', 'project=files', 'assignee=@@ann', 'labels=@labels.json')
    const { task_id } = JSON.parse(made.stdout) as { task_id: string }
    expect(JSON.parse((await call('task_get', `task_id=${task_id}`)).stdout)).toMatchObject({
      title: 'From a file',
      assignee: '@ann',
      labels: ['a', 'b'],
    })
    const piped = await onState(['call', 'task_create', 'title=@-', 'project=files', '--json'], { input: 'Piped' })
    expect(piped.code).toBe(0)
  })

  test.each([
    [['title=a', 'title=b'], "'title' occurs twice. Keep one of them."],
    [['labels=["a"]', 'labels=["b"]'], `'labels' occurs twice. Give all of its items at once: labels='["a","b"]'`],
    [['title=x', 'labels=red,blue'], `'labels' takes a JSON array: labels='["red","blue"]'`],
  ])('%j are refused with what to write', async (args, message) => {
    const refused = await call('task_create', 'project=p', ...args)
    expect([refused.code, errorOf(refused).message]).toEqual([2, message])
  })

  test('that are missing are named all at once', async () => {
    const refused = await onState(['call', 'task_create'])
    expect(refused.stderr).toContain("Required field 'title' is missing for 'task_create'")
    expect(refused.stderr).toContain("  - Required field 'project' is missing for 'task_create'")
  })

  test.each([
    [['estimate_hours=1e400'], 'estimate_hours'],
    [['--args', '{"estimate_hours":-1e999}'], 'estimate_hours'],
    [['--args', '{"labels":["a",{"deep":1e400}]}'], 'labels.1.deep'],
    [['__proto__=1'], '__proto__'],
  ])('%j is refused by name, not left out', async (args, field) => {
    const refused = await call('task_create', 'title=x', 'project=p', ...args)
    expect(refused.code).toBe(2)
    expect(errorOf(refused)).toMatchObject({ code: 'ERR_INVALID_INPUT', details: { field } })
    expect(errorOf(refused).message).toContain(`'${field}'`)
  })
})

import { describe, expect, it } from 'vitest'
import { completions } from './completions.ts'

const source = {
  commands: {
    call: { flags: ['--json', '--wait'], words: [], valued: ['--url'] },
    keys: { flags: ['--json'], words: ['create', 'list', 'revoke'] },
    tools: { flags: ['--json'], words: [] },
  },
  tools: { task_create: { title: [], priority: ['low', 'high'] }, task_list: { project: [] } },
}

describe('completions', () => {
  it.each<[string, readonly string[], readonly string[]]>([
    ['commands', ['c'], ['call']],
    ['everything at the beginning', [''], ['call', 'help', 'keys', 'tools']],
    ['flags', ['call', '--w'], ['--wait']],
    ['flags that are not given yet', ['call', '--json', '--'], ['--wait']],
    ['words of a command', ['keys', ''], ['create', 'list', 'revoke']],
    ['tools to call', ['call', 'task_c'], ['task_create']],
    ['tools to show', ['tools', 'task_l'], ['task_list']],
    ['fields', ['call', 'task_create', ''], ['priority=', 'title=']],
    ['fields that are not given yet', ['call', 'task_create', 'title=x', ''], ['priority=']],
    ['values', ['call', 'task_create', 'priority='], ['priority=high', 'priority=low']],
    ['tools after a flag with its value', ['call', '--url', 'https://x', 'task_c'], ['task_create']],
    ['nothing for the value of a flag', ['call', '--url', ''], []],
    ['nothing for a tool that is not there', ['call', 'toString', ''], []],
    ['nothing for a command that is not there', ['constructor', ''], []],
    ['nothing after what is complete', ['keys', 'list', ''], []],
  ])('are %s', (_what, words, expected) => expect(completions(source, words)).toEqual(expected))
})

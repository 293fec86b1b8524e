import { describe, expect, it } from 'vitest'
import { programIn } from './languages.ts'

describe('the program in an answer', () => {
  it('is the member code of a JSON object, also in a fence', () => {
    expect(programIn('{"file":"solution.py","code":"print(1)"}', 'python')).toBe('print(1)')
    expect(programIn('```json\n{"code":"print(1)"}\n```', 'python')).toBe('print(1)')
  })

  it('is the longest block of its language', () => {
    const answer =
      'Run it:\n```bash\npython3 solution.py --all --of --it\n```\nIt is:\n```py\na = 1\n```\nand\n```python\nprint(1)\n```\n'
    expect(programIn(answer, 'python')).toBe('print(1)\n')
    expect(programIn(answer, 'bash')).toBe('python3 solution.py --all --of --it\n')
  })

  it('is the only block, whatever that is called', () => {
    expect(programIn('Here:\n```\necho 1\n```', 'bash')).toBe('echo 1\n')
    expect(programIn('```a\n1\n```\n```b\n2\n```\n', 'bash')).toBeUndefined()
  })

  it('is missing where there is only talk', () => {
    expect(programIn('I would print 1.', 'python')).toBeUndefined()
    expect(programIn('{"code":1}', 'python')).toBeUndefined()
    expect(programIn('null', 'python')).toBeUndefined()
  })
})

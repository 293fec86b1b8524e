import { onTestFinished } from 'vitest'
import type { TestApp } from './app.ts'
import { agentYaml, type Loop, type LoopRequest, openLoop } from './executions.ts'
import { inTurn, type Line, type ScriptedModel, startScriptedModel } from './scripted-model.ts'

/** Agents that call tools in a real workspace, as a script of the model says. */
export type Script = readonly Line[] | Parameters<typeof startScriptedModel>[0]

export async function openToolLoop(
  app: TestApp,
  request: Omit<LoopRequest, 'model'> & { script: Script },
): Promise<{ loop: Loop; model: ScriptedModel }> {
  const { script, ...rest } = request
  const model = await startScriptedModel(typeof script === 'function' ? script : inTurn(...script))
  const loop = await openLoop(app, { ...rest, model })
  onTestFinished(async () => {
    await loop.engine.close()
    await model.stop()
  })
  return { loop, model }
}

export const call = (name: string, args: object): Line => ({ toolCalls: [{ name, arguments: args }] })
export const worker = (more = ''): string =>
  agentYaml('worker', `  task: { instruction: "Work." }\n  tools: [fs.read, fs.write, cmd.run]\n${more}`)
export const judge = agentYaml('judge', '  task: { instruction: "Judge." }\n  tools: [fs.read, fs.write]\n')

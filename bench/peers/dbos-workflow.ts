import { DBOS } from '@dbos-inc/dbos-sdk'

export type StepRunner = Readonly<{ runOne(): Promise<void>; close(): Promise<void> }>

/** The same workflow on DBOS: so many steps, each with its result recorded in PostgreSQL before the next begins. */
export async function openDbos(url: string, steps: number): Promise<StepRunner> {
  const workflow = DBOS.registerWorkflow(
    async () => {
      let sum = 0
      for (let n = 1; n <= steps; n++) sum += await DBOS.runStep(async () => n, { name: `step-${n}` })
      return sum
    },
    { name: 'steps' },
  )
  DBOS.setConfig({
    name: 'castellan-bench',
    systemDatabaseUrl: url,
    systemDatabasePoolSize: 32,
    logLevel: 'error',
    tracingEnabled: false,
    runAdminServer: false,
  })
  await DBOS.launch()
  return {
    async runOne() {
      const handle = await DBOS.startWorkflow(workflow)()
      await handle.getResult()
    },
    close: () => DBOS.shutdown(),
  }
}

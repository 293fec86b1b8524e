/** Whether this is the long run of `npm run test:faults`: wider sweeps and many more deaths. */
export const isLongRun = process.env['CASTELLAN_LONG'] === '1'

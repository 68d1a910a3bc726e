#!/usr/bin/env node
// What `npx runnel` and the service start: the bundle, or the sources where they have changed since, in this very process.
import { bundleOf } from './bundle.js';

const bundle = bundleOf('main');
if (bundle === undefined) (await import('tsx/esm/api')).register();
/** @type {typeof import('./main.ts')} */
const { main } = await import(bundle ?? './main.ts');
process.exitCode = await main(process.argv.slice(2));

import threading

import torch
from cuda.bindings import driver

import tilewright as tw
from tilewright.backends import gpu

a=torch.randn(256,256,device='cuda',dtype=torch.bfloat16); b=torch.randn(256,256,device='cuda',dtype=torch.bfloat16); o=torch.empty_like(a)
ref=(a.double()@b.double()); L=gpu._launch
for kern in ('wgmma','mma'):
    p=tw.plan(a,b,out=o,kernel=kern); seen=[]
    def spy(*x):
        r=L(*x); seen.append(r[0]); return r
    gpu._launch=spy
    for tag in ('thread','other'):
        o.fill_(float('nan')); torch.cuda.synchronize(); seen.clear(); err=[]
        def f():
            try:
                if tag=='other':
                    r=driver.cuCtxCreate(driver.CUctxCreateParams(),0,driver.CUdevice(0)); print('create',r[0])
                p(a,b,out=o,stream=0)
            except BaseException as e: err.append(repr(e)[:300])
        t=threading.Thread(target=f); t.start(); t.join(); torch.cuda.synchronize()
        print(kern,tag,[str(s) for s in seen],err,((o.double()-ref).norm()/ref.norm()).item())
    gpu._launch=L
